// A request of the engine's own, by which one of a client's is answered in part.
#pragma once

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct PartRequest {
  int number = 0;  // among those of the request
  proto::Prompt prompt;
  proto::GenerationOptions options;
  // The last tokens of the decoder prompt, that the answer begins with (TimestampRules).
  int prefix_tokens = 0;
};

}  // namespace tandem
