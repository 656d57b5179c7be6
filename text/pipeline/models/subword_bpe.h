// Byte-pair encoding of lower-case words whose pieces end with "@@" where the word goes on, as
// Blenderbot-small's tokenizer has it.
#pragma once

#include <memory>
#include <string>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// `json`: "vocab" and "merges" as in tokenizer.json; pieces that the vocabulary lacks become
// `unknown_token`. Its words are whole texts. Throws InputError naming file and key.
std::unique_ptr<TokenModel> make_subword_model(const JsonView& json,
                                               const std::string& unknown_token);
std::unique_ptr<Decoder> make_subword_decoder();

}  // namespace tandem
