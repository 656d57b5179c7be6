// SIGINT and SIGTERM as events. To be made before any other thread.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tandem::launcher {

// Blocks the signals in this thread and those that it starts.
void block_signals();
// Waits for one, at most that long; 0: none came.
int wait_for_signal(int milliseconds);

// A thread that ends the process at the first signal, after `clean_up`, as if by that signal's
// default (status 128 + its number). For commands that are busy elsewhere.
class SignalGuard {
 public:
  explicit SignalGuard(std::function<void()> clean_up);
  ~SignalGuard();

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;  // reads done_
};

}  // namespace tandem::launcher
