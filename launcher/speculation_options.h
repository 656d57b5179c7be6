// --speculative-config: drafts, as vLLM's JSON object says them.
#pragma once

#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::launcher {

// Sets what it says. Throws InputError naming the flag and the key: malformed, unknown, of the
// wrong type, or a method other than "ngram" and "draft_model".
void read_speculation(const std::string& text, proto::DraftingConfig& config);

}  // namespace tandem::launcher
