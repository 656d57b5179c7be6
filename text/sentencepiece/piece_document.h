// What stands in tokenizer.json of the pieces of a SentencePiece model: for checkpoints that have
// only the model.
#pragma once

#include <nlohmann/json.hpp>

#include "text/sentencepiece/piece_model.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_rule.h"

namespace tandem {

// The token model, the table of characters as a normalizer, and the tokens that are found in texts
// before anything else. Of a BPE rule, merges are all ways to put a piece together of two others,
// in the order of the pieces; scores do not count, and bytes for unknown characters neither, as in
// HuggingFace. `config`: tokenizer_config.json. Throws InputError naming `config`'s file.
nlohmann::json piece_document(const PieceModel& model, const TokenizerRule& rule,
                              const JsonView& config);

}  // namespace tandem
