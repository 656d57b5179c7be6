// Byte-pair encoding of the words of Moses' tokenizer, with a vocabulary for each of two languages.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

struct MosesFiles {
  nlohmann::json source, target;  // {"token": id}, of texts and of decoded ids
  nlohmann::json merges;          // ["a b", …]
  std::string source_language, target_language;
  bool lower_case = false;
  std::string unknown_token;  // of pieces that the vocabulary lacks
};

// token_to_id() asks the vocabulary of texts, id_to_token() the other one. Its words are whole
// texts. Throws InputError naming `file` and key.
std::unique_ptr<TokenModel> make_moses_model(const MosesFiles& files, const std::string& file);
std::unique_ptr<Decoder> make_moses_decoder(const MosesFiles& files);

}  // namespace tandem
