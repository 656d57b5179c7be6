// Texts and lines from arguments, files and standard input.
#pragma once

#include <cstdint>
#include <deque>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace tandem::launcher {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

// An open file, or standard input for "-". Throws InputError naming the file.
std::unique_ptr<std::istream> open_input(const std::string& file);

// Whether standard input is a pipe or a file with something in it. Waits until that is known.
bool is_piped();
// Standard input, "-", where there is neither a text nor a file and something is piped in.
void take_pipe(std::vector<std::string>& texts, const std::string& file = {});

// One line on standard error, for the `number`-th text of the input (from 1), or by its name.
void report_failure(uint64_t number, const InputError& error, const std::string& name = {});

struct Line {
  std::string text;
  bool too_long = false;  // over kMaxLineBytes; the text was dropped
};

// Reads lines on a thread of its own, a bounded number ahead, so that requests flow in while others
// run. A last line without a newline counts; a carriage return at the end of a line does not.
class LineReader {
 public:
  enum class EmptyLines : uint8_t { kSkip, kKeep };
  explicit LineReader(std::unique_ptr<std::istream> in, EmptyLines empty = EmptyLines::kSkip);
  ~LineReader();
  // The next line if there is one now; with `wait`, blocks until there is one or the end.
  std::optional<Line> next(bool wait);
  bool at_end();  // and nothing left

 private:
  // Shared with the thread, which may outlive the reader inside a read that nobody waits for.
  struct State {
    std::unique_ptr<std::istream> in;
    Mutex mutex;
    CondVar changed;
    std::deque<Line> lines GUARDED_BY(mutex);
    bool keep_empty = false;
    bool finished GUARDED_BY(mutex) = false, stop GUARDED_BY(mutex) = false;
  };
  static void read(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

// Lines that come as they are read, or texts that are there.
struct RequestInput {
  std::unique_ptr<LineReader> reader;
  std::vector<std::string> texts;
  size_t at = 0;  // of texts

  // The next one, if there is one now; `more` becomes false at the end. With `wait`, blocks until
  // there is one or the end.
  std::optional<Line> next(bool wait, bool& more);
};

// The texts of a command: arguments; else the whole of a file ("-": standard input), or each of its
// lines, also empty ones. Throws InputError when there are none.
RequestInput open_texts(const std::vector<std::string>& arguments, const std::string& file,
                        bool each_line);

}  // namespace tandem::launcher
