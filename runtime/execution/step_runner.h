// Whoever executes steps: a rank's model, a worker, or what tests put in their place.
// Synchronous; one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a device's decoder has done.
struct DecoderStats {
  int64_t run = 0, recorded = 0, replayed = 0;  // steps
  int64_t prepared = 0;                         // recorded before the first of them
  size_t nodes = 0;    // kernels and copies of the latest recording, as the device counts them
  double seconds = 0;  // the device's, of finished steps that were timed (time_decoder())
};

// What was recorded before the first step. Recordings that the device could not make do not count.
struct RecordedSteps {
  int count = 0;
  size_t bytes = 0;  // of the device's memory, as it says
  RecordedSteps& operator+=(const RecordedSteps& other) {
    count += other.count;
    bytes += other.bytes;
    return *this;
  }
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Begins a step. Throws std::runtime_error naming the field of an inconsistent message.
  virtual void launch(const proto::StepInput& step) = 0;
  // Steps whose answer was not taken.
  virtual int steps_launched() const = 0;
  // Whether the oldest one's answer is there. Does not wait.
  virtual bool ready() = 0;
  // Its answer. Waits for it.
  virtual proto::StepOutput finish() = 0;
  // Runs one step to its end; none is under way.
  virtual proto::StepOutput execute(const proto::StepInput& step) {
    launch(step);
    return finish();
  }
};

}  // namespace tandem
