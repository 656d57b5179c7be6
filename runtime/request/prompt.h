// The prompt of a request → token ids of encoder and decoder, or the encoder's frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "runtime/media/image/image_processor.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/params_resolver.h"
#include "text/tokenizer.h"

namespace tandem {

struct PreparedPrompt {
  proto::EncoderDecoderInputs inputs;
  PromptLengths lengths;  // for ParamsResolver::resolve
  // Scoring: the target's last token, which no step feeds to the decoder; those before it end the
  // decoder prompt.
  std::optional<int32_t> last_target_token = {};
  // Nothing is generated: then `lengths` are nothing either.
  std::optional<proto::Pooling> pooling = {};
};

// Texts are those of src_lang and tgt_lang, behind the prefix of the task; tgt_lang must have been
// through with_target_language() (language_rules.h). An empty text (white space is nothing) is an
// error where there is nothing else to go by and the request's allow_empty_prompt does not allow
// it. Tokenises, truncates if the request's truncate_prompt_tokens says so (the tail is cut, the
// end tokens stay), makes the decoder prompt, and checks ids or frames and the encoder's length.
// `tokenizer` may be null if the model has none: then text is an error; so may `images`, which turn
// an image into frames. Throws InputError with the
// field and the numbers.
PreparedPrompt preprocess(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                          const Tokenizer* tokenizer, const ModelConfig& config,
                          const ParamsResolver& resolver, const ImageProcessor* images = nullptr);

// How many tokens the encoder reads of a text, with those around it, before anything is cut off.
// Options as for preprocess().
size_t num_encoder_tokens(const proto::PromptPart& text, const proto::GenerationOptions& options,
                          const Tokenizer& tokenizer, const ParamsResolver& resolver);

}  // namespace tandem
