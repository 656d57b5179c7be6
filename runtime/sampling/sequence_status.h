// Where a sequence is on its way, and why it ended.
#pragma once

#include <cstdint>

namespace tandem {

enum class SequenceStatus : uint8_t {
  kWaiting,
  kRunning,
  kSwapped,
  kFinishedStopped,  // EOS, a stop token or a stop string
  kFinishedLength,   // max_tokens
  kFinishedAborted,
};
bool is_finished(SequenceStatus status);
// "stop", "length", "abort"; "" while it runs.
const char* finish_reason(SequenceStatus status);

}  // namespace tandem
