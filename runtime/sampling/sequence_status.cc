#include "runtime/sampling/sequence_status.h"

namespace tandem {

bool is_finished(SequenceStatus status) { return status >= SequenceStatus::kFinishedStopped; }

const char* finish_reason(SequenceStatus status) {
  switch (status) {
    case SequenceStatus::kFinishedStopped: return "stop";
    case SequenceStatus::kFinishedLength: return "length";
    case SequenceStatus::kFinishedAborted: return "abort";
    default: return "";
  }
}

}  // namespace tandem
