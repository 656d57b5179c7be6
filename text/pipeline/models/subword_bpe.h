// Byte-pair encoding of lower-case words, as in Blenderbot-small's tokenizer. Pieces end with "@@"
// if the word continues.
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
