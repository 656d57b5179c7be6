// --speculative-config: drafts, as vLLM's JSON object says them.
#pragma once

#include <string>

#include "runtime/scheduling/scheduler_config.h"

namespace tandem::launcher {

// draft_model: what it says of a model. Throws InputError naming the flag and the key: malformed,
// unknown, of the wrong type, or a method other than "ngram" and "draft_model".
void read_speculation(const std::string& text, SpeculationConfig& config, std::string& draft_model);

}  // namespace tandem::launcher
