// What the decoder reads for a model's head, the source once more, shifted right; and for an
// alignment.
#pragma once

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/params_resolver.h"
#include "runtime/request/prompt.h"

namespace tandem {

// Adds the decoder's prompt to `out`, whose encoder ids are there; for labels the prompt ends with
// the row at the source's last end token, and the names of the labels come along. Throws InputError
// naming the field: no end token, too many tokens for the decoder.
void add_head_inputs(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                     const ModelConfig& config, const ParamsResolver& resolver,
                     PreparedPrompt& out);

// Of an alignment, whose inputs are there. Throws InputError naming the field: too many tokens for
// the decoder; tokens, heads, positions that there are not; a model that hears nothing.
void check_alignment(const proto::Prompt& prompt, const ModelConfig& config,
                     const ParamsResolver& resolver, const proto::EncoderDecoderInputs& inputs);

// As they travel with a request.
proto::Labels labels_message(const ModelConfig& config);

}  // namespace tandem
