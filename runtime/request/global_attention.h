// Which of the encoder's tokens have global attention.
#pragma once

#include <cstdint>
#include <vector>

#include "models/config/limits.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Positions with global attention in an encoder sequence of `length` positions: those of the
// encoder's prompt or of the options, else the model's default. Ascending, each once. null in the
// options: none. Throws InputError (global_attention) for a model without it, positions that are
// not there, and both.
std::vector<int32_t> global_positions(const proto::Prompt& prompt,
                                      const proto::GenerationOptions& options,
                                      const ModelLimits& limits, int length);

}  // namespace tandem
