// BERT's words and their pieces, which several tokenizer classes of HuggingFace have.
#pragma once

#include <nlohmann/json.hpp>

#include "text/tokenizer_rule.h"

namespace tandem {

// TokenizerRule::stages: normalizer, pre-tokenizer, model and decoder, by the keys of
// tokenizer_config.json.
void bert_words(const TokenizerRule::StageInput& in, nlohmann::json& document);

}  // namespace tandem
