#include "launcher/commands/files/input.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/strings/readable_text.h"
#include "launcher/commands/command.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLinesAhead = 4096;

// std::getline with a limit on what is kept.
bool read_line(std::istream& in, Line& line) {
  line = {};
  std::streambuf* buffer = in.rdbuf();
  bool any = false;
  for (int c = buffer->sbumpc(); c != std::char_traits<char>::eof(); c = buffer->sbumpc()) {
    any = true;
    if (c == '\n') return true;
    if (line.text.size() >= kMaxLineBytes) line.too_long = true;
    if (!line.too_long) line.text.push_back(static_cast<char>(c));
  }
  return any;
}

}  // namespace

std::unique_ptr<std::istream> open_input(const std::string& file) {
  if (file == "-") return std::make_unique<std::istream>(std::cin.rdbuf());
  if (std::filesystem::is_directory(file))
    throw invalid_request("--input", file + " is a directory");
  auto in = std::make_unique<std::ifstream>(file, std::ios::binary);
  if (!*in) throw invalid_request("--input", file + ": " + std::strerror(errno));
  return in;
}

// (A terminal would be waited for, and a service has /dev/null.)
bool is_piped() {
  struct stat state {};
  if (fstat(STDIN_FILENO, &state) != 0) return false;
  if (S_ISREG(state.st_mode)) return state.st_size > lseek(STDIN_FILENO, 0, SEEK_CUR);
  if (!S_ISFIFO(state.st_mode)) return false;
  constexpr int kSilence = 1000;  // milliseconds after which somebody may wonder
  pollfd pipe{STDIN_FILENO, POLLIN, 0};
  if (poll(&pipe, 1, kSilence) == 0) {
    std::fprintf(stderr, "tandem: waiting for standard input\n");
    while (poll(&pipe, 1, -1) < 0 && errno == EINTR) {
    }
  }
  int bytes = 0;  // none: its writer has closed it
  return ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

void take_pipe(std::vector<std::string>& texts, const std::string& file) {
  if (texts.empty() && file.empty() && is_piped()) texts.emplace_back("-");
}

void report_failure(uint64_t number, const InputError& error, const std::string& name) {
  const std::string of = name.empty() ? "text " + std::to_string(number) : name;
  std::fprintf(stderr, "tandem: %s: %s\n", readable(of).c_str(), readable(error.what()).c_str());
}

LineReader::LineReader(std::unique_ptr<std::istream> in, EmptyLines empty)
    : state_(std::make_shared<State>()) {
  state_->in = std::move(in);
  state_->keep_empty = empty == EmptyLines::kKeep;
  thread_ = std::thread([state = state_] { read(state); });
}

LineReader::~LineReader() {
  bool finished;
  {
    const MutexLock lock(state_->mutex);
    state_->stop = true;
    finished = state_->finished;
    state_->changed.notify_all();
  }
  if (finished)
    thread_.join();
  else
    thread_.detach();
}

void LineReader::read(const std::shared_ptr<State>& state) {
  Line line;
  while (read_line(*state->in, line)) {
    if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
    if (line.text.empty() && !line.too_long && !state->keep_empty) continue;
    const MutexLock lock(state->mutex);
    while (!state->stop && state->lines.size() >= kLinesAhead) state->changed.wait(state->mutex);
    if (state->stop) return;
    state->lines.push_back(std::move(line));
    state->changed.notify_all();
  }
  const MutexLock lock(state->mutex);
  state->finished = true;
  state->changed.notify_all();
}

std::optional<Line> LineReader::next(bool wait) {
  const MutexLock lock(state_->mutex);
  while (wait && !state_->finished && state_->lines.empty()) state_->changed.wait(state_->mutex);
  if (state_->lines.empty()) return std::nullopt;
  Line line = std::move(state_->lines.front());
  state_->lines.pop_front();
  state_->changed.notify_all();
  return line;
}

bool LineReader::at_end() {
  const MutexLock lock(state_->mutex);
  return state_->finished && state_->lines.empty();
}

std::optional<Line> RequestInput::next(bool wait, bool& more) {
  if (reader) {
    auto line = reader->next(wait);
    if (!line) more = !reader->at_end();
    return line;
  }
  if (at == texts.size()) {
    more = false;
    return std::nullopt;
  }
  return Line{std::move(texts[at++]), false};
}

namespace {

// Whoever names a file may want what is in it.
void tell_of_files(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    std::error_code error;
    if (text.find_first_of(" \t\n") != text.npos || !fs::is_regular_file(text, error)) continue;
    std::fprintf(stderr,
                 "tandem: \"%s\" is a text here, and the name of a file: --input reads it\n",
                 readable(text).c_str());
  }
}

}  // namespace

RequestInput open_texts(const std::vector<std::string>& arguments, const std::string& file,
                        bool each_line) {
  RequestInput input;
  for (const std::string& text : arguments)
    if (text != "-") input.texts.push_back(text);
  const bool from_stdin = input.texts.size() != arguments.size();
  if (from_stdin && (!file.empty() || !input.texts.empty()))
    throw invalid_request("-", "standard input cannot be mixed with texts or --input");
  if (!input.texts.empty() && !file.empty())
    throw invalid_request("--input", "give texts or a file, not both");
  if (!input.texts.empty()) {
    tell_of_files(input.texts);
    return input;
  }
  if (file.empty() && !from_stdin)
    throw invalid_request("TEXT",
                          "nothing to do: give a text, --input FILE, or - for standard input");
  auto in = open_input(from_stdin ? "-" : file);
  if (each_line) {
    input.reader = std::make_unique<LineReader>(std::move(in), LineReader::EmptyLines::kKeep);
    return input;
  }
  std::string text{std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>()};
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  input.texts.push_back(std::move(text));
  return input;
}

}  // namespace tandem::launcher
