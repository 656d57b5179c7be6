// Tokens that SentencePiece models of two languages segment, with the ids of one vocabulary.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/pipeline/text_pipeline.h"
#include "text/sentencepiece/piece_model.h"
#include "text/tokenizer_rule.h"

namespace tandem {

struct SentencePieceFiles {
  nlohmann::json vocabulary;         // {"token": id}
  nlohmann::json target_vocabulary;  // of ids that are decoded; null: `vocabulary`
  PieceModel source;                 // of texts that are encoded
  PieceModel target;                 // of ids that are decoded
  std::string unknown_token;         // of pieces that the vocabulary lacks
  TokenizerRule::SentencePieceOptions options = {};
};

// With two vocabularies token_to_id() asks the one of texts, id_to_token() the other one. Throws
// InputError naming `file`, the vocabulary's, or the model's.
std::unique_ptr<TokenModel> make_sentencepiece_model(const SentencePieceFiles& files,
                                                     const std::string& file);
std::unique_ptr<Decoder> make_sentencepiece_decoder(const SentencePieceFiles& files);

}  // namespace tandem
