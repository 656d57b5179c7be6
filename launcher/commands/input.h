// Texts and lines from arguments, files and standard input.
#pragma once

#include <condition_variable>
#include <deque>
#include <istream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tandem::launcher {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

// An open file, or standard input for "-". Throws InputError naming the file.
std::unique_ptr<std::istream> open_input(const std::string& file);

// The texts of a command: arguments; else the whole of a file ("-": standard input), or each of its
// lines. Throws InputError when there are none.
std::vector<std::string> read_texts(const std::vector<std::string>& arguments,
                                    const std::string& file, bool each_line);

struct Line {
  std::string text;
  bool too_long = false;  // over kMaxLineBytes; the text was dropped
};

// Reads lines on a thread of its own, a bounded number ahead, so that requests flow in while others
// run. A last line without a newline counts; empty lines are skipped.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<std::istream> in);
  ~LineReader();
  // The next line if there is one now; with `wait`, blocks until there is one or the end.
  std::optional<Line> next(bool wait);
  bool at_end();  // and nothing left

 private:
  // Shared with the thread, which may outlive the reader inside a read that nobody waits for.
  struct State {
    std::unique_ptr<std::istream> in;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Line> lines;
    bool finished = false, stop = false;
  };
  static void read(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tandem::launcher
