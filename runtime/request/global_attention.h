// Which of the encoder's tokens have global attention.
#pragma once

#include <cstdint>
#include <vector>

#include "models/config/limits.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What the encoder's prompt or the options say of an encoder sequence of so many positions, else
// what the model has where nothing is said; ascending, each once. null in the options: none. Throws
// InputError (global_attention) for a model without it, positions that are not there, and both.
std::vector<int32_t> global_positions(const proto::Prompt& prompt,
                                      const proto::GenerationOptions& options,
                                      const ModelLimits& limits, int length);

}  // namespace tandem
