#include "launcher/commands/input.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/error.h"

namespace tandem::launcher {
namespace {

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

std::vector<std::string> read_texts(const std::vector<std::string>& arguments,
                                    const std::string& file, bool each_line) {
  std::vector<std::string> texts;
  for (const std::string& text : arguments)
    if (text != "-") texts.push_back(text);
  const bool from_stdin = texts.size() != arguments.size();
  if (from_stdin && (!file.empty() || !texts.empty()))
    throw invalid_request("-", "standard input cannot be mixed with texts or --input");
  if (!texts.empty() && !file.empty())
    throw invalid_request("--input", "give texts or a file, not both");
  if (!texts.empty()) return texts;
  if (file.empty() && !from_stdin)
    throw invalid_request("TEXT",
                          "nothing to do: give a text, --input FILE, or - for standard input");
  const auto in = open_input(from_stdin ? "-" : file);
  if (each_line) {
    for (Line line; read_line(*in, line);) {
      if (line.too_long) throw invalid_request("--input", "a line is longer than 64 MiB");
      texts.push_back(std::move(line.text));
    }
  } else {
    texts.emplace_back(std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>());
    while (!texts[0].empty() && (texts[0].back() == '\n' || texts[0].back() == '\r'))
      texts[0].pop_back();
  }
  if (texts.empty()) throw invalid_request("--input", "there is no text in it");
  return texts;
}

LineReader::LineReader(std::unique_ptr<std::istream> in) : state_(std::make_shared<State>()) {
  state_->in = std::move(in);
  thread_ = std::thread([state = state_] { read(state); });
}

LineReader::~LineReader() {
  bool finished;
  {
    std::lock_guard lock(state_->mutex);
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
    if (line.text.empty() && !line.too_long) continue;
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->stop || state->lines.size() < kLinesAhead; });
    if (state->stop) return;
    state->lines.push_back(std::move(line));
    state->changed.notify_all();
  }
  std::lock_guard lock(state->mutex);
  state->finished = true;
  state->changed.notify_all();
}

std::optional<Line> LineReader::next(bool wait) {
  std::unique_lock lock(state_->mutex);
  if (wait) state_->changed.wait(lock, [&] { return state_->finished || !state_->lines.empty(); });
  if (state_->lines.empty()) return std::nullopt;
  Line line = std::move(state_->lines.front());
  state_->lines.pop_front();
  state_->changed.notify_all();
  return line;
}

bool LineReader::at_end() {
  std::lock_guard lock(state_->mutex);
  return state_->finished && state_->lines.empty();
}

}  // namespace tandem::launcher
