// The tokenizer.json of a SentencePiece model, for checkpoints that have only the model.
#pragma once

#include <nlohmann/json.hpp>

#include "text/sentencepiece/piece_model.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_rule.h"

namespace tandem {

// Contains the token model, the table of characters as a normalizer, and the tokens that are found
// in texts before anything else. For a BPE rule, merges are all ways to join two pieces to a third,
// in the order of the pieces. As in HuggingFace, scores and bytes for unknown characters do not
// count. `config`: tokenizer_config.json. Throws InputError naming `config`'s file.
nlohmann::json piece_document(const PieceModel& model, const TokenizerRule& rule,
                              const JsonView& config);

}  // namespace tandem
