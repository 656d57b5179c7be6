// How long a stage of a pipeline computes, without what it waits for the others. On the CPU that is
// the host's time within steps; on a device the time between marks around its layers, of the work
// that is done so far. Work whose marks were made too long ago is not counted. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "kernels/core/context.h"

namespace tandem {

class StageClock {
 public:
  explicit StageClock(Context& ctx) : ctx_(ctx), step_begun_(Clock::now()) {}

  // Between steps the host's time does not count.
  void begin_step();
  void end_step();
  // Of the host, in a step. On a device it does not count anyway.
  void add_wait(double seconds) { waited_ += seconds; }
  // Around layers, of the encoder or of the decoder.
  void begin_work(bool encoder);
  void end_work();
  bool is_at_work() const { return work_.has_value(); }

  // Seconds since the start.
  struct Seconds {
    double all = 0, encoder = 0;
  };
  Seconds seconds();

 private:
  using Clock = std::chrono::steady_clock;
  // The host is no further ahead of a device: marks of the backend are kept for a while only.
  static constexpr size_t kMostOpen = 2;

  struct Work {
    uint64_t from = 0, to = 0;  // marks
    double since = 0;           // on the CPU
    bool encoder = false;
  };
  double of_host() const;
  void settle();

  Context& ctx_;
  Seconds before_;  // this step; on a device all that is known to be done
  Clock::time_point step_begun_;
  bool in_step_ = false;
  double waited_ = 0;  // in this step
  std::optional<Work> work_;
  std::deque<Work> open_;  // of a device: oldest first
};

}  // namespace tandem
