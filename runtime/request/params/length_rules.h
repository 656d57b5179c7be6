// Parameters that limit how much is generated.
#pragma once

#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/option_sources.h"

namespace tandem {

// Into `out`: max_tokens, min_tokens, min_tokens_stop. Throws InputError where nothing could be
// generated, more is asked for than the model has positions, or limits contradict each other.
void set_lengths(const OptionSources& s, proto::SamplingParams& out);

}  // namespace tandem
