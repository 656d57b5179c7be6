// A progress bar on standard error, drawn only where that is a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::launcher {

class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar();  // erases the bar
  // At most ten redraws a second; total 0 means unknown.
  void update(uint64_t done, uint64_t total, const std::string& note = {});
  void erase();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string title_;
  bool enabled_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_{};
};

}  // namespace tandem::launcher
