// Parameters that name token ids: forced, suppressed, biased and allowed ones, bad words, end
// tokens.
#pragma once

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/option_sources.h"

namespace tandem {

// Into `out`. Throws InputError where nothing would be left to choose.
void set_tokens(const OptionSources& s, const ModelConfig& config, proto::SamplingParams& out);

}  // namespace tandem
