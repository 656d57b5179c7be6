// A progress bar on standard error, drawn only where that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tandem::launcher {

class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // erases the bar
  // At most ten redraws a second; total 0 means unknown. With a total the line says how long the
  // rest will take, once that can be told.
  void update(uint64_t done, uint64_t total, const std::string& note = {});
  void erase();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_{};
  uint64_t first_done_ = 0;  // at first_: a download may go on where another one has ended
  std::optional<Clock::time_point> first_;
};

// "2:05 left" or "1:02:05 left", if `done` took `seconds` and `rest` remains. Empty while it is too
// early to tell.
std::string time_left(double seconds, double done, double rest);

}  // namespace tandem::launcher
