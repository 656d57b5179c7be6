// The tokenizer of a checkpoint directory in one form, whichever files there are.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/checkpoint_files.h"
#include "text/moses/moses_model.h"
#include "text/pipeline/added_tokens.h"
#include "text/python/python_tokens.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/tokenizer_rule.h"

namespace tandem {

struct TokenizerFiles {
  nlohmann::json document;  // with the keys of tokenizer.json
  std::string file;         // that it was read from, for messages
  // Tokens to add, in this order, each group at once. The order decides the ids of new tokens.
  std::vector<std::vector<AddedToken>> added_tokens;
  std::optional<PythonTokenList> python;  // instead of those
  // Tokens that the template in `document` names without their ids.
  std::vector<std::string> template_tokens;
  std::optional<SentencePieceFiles> sentencepiece;  // then `document` has a template only
  TokenizerRule::Languages languages;
  // If not empty: the tokens of the languages. Their ids follow the vocabulary in this order.
  std::vector<std::string> language_tokens;
  std::string unknown_token;  // of a language that the vocabulary lacks; empty: an error
  std::string outside;        // text of ids that have no token
  std::string source_token;   // of the source's language; empty: the template has none
  bool source_first = false, source_last = false;  // where the template has, or would have, it
  std::string subword_unknown;      // not empty: the model is of subwords (pipeline/subword_bpe.h)
  std::optional<MosesFiles> moses;  // then `document` has a template only
  int model_max_length = 0;
  bool split_special_tokens = false;
  bool (*left_out)(std::string_view token) = nullptr;  // of decoded text
  bool tidies = false;  // decoding takes spaces before punctuation away
};

// As HuggingFace's AutoTokenizer: some tokenizer classes take only the vocabulary from
// tokenizer.json and rebuild the stages with the settings of tokenizer_config.json. Without a
// class, the first rule applies to vocab.json and merges.txt.
TokenizerFiles combine(CheckpointFiles files, std::span<const TokenizerRule> rules);
TokenizerFiles read_tokenizer_files(const std::filesystem::path& directory,
                                    std::span<const TokenizerRule> rules);

// A document without other files: its added_tokens in a group.
TokenizerFiles tokenizer_from_document(nlohmann::json document, const std::string& file);

}  // namespace tandem
