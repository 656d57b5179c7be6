// SIGINT, SIGTERM and SIGHUP as events. A program that takes them in time ends in its own way; one
// that does not is ended.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace tandem::launcher {

// From now on signals are events. To be called before any other thread is made. One that nobody
// takes (wait_for_signal) within kPatience seconds ends the process, as does a second one.
void catch_signals();
inline constexpr unsigned kPatience = 10;
// Waits for one, at most that long; 0: none came. From one thread at a time.
int wait_for_signal(int milliseconds);
// The process ends after so many seconds, come what may.
void end_within(unsigned seconds);

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
