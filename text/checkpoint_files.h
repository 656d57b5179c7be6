// The tokenizer's files in a checkpoint directory, unchanged.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "text/pipeline/special_tokens.h"
#include "text/sentencepiece/piece_model.h"
#include "text/tokenizer_rule.h"

namespace tandem {

struct CheckpointFiles {
  OptionalFile config;              // tokenizer_config.json
  OptionalFile special_tokens_map;  // special_tokens_map.json
  OptionalFile added_tokens;        // added_tokens.json
  OptionalFile model_config;        // config.json
  OptionalFile document;            // tokenizer.json; `exists` is false if made of other files
  OptionalFile listed;  // tokenizer.json of a class that takes nothing but its added tokens
  // Of a SentencePiece tokenizer: vocab.json, the vocabulary of decoded tokens if it differs, and
  // the rule's models.
  OptionalFile vocabulary, target_vocabulary;  // of Moses' words too, which have both
  nlohmann::json merges;                       // of these, as tokenizer.json has them
  PieceModel source, target;
};

// Reads the files that the rule of the checkpoint's class uses. Throws InputError naming the file.
CheckpointFiles read_checkpoint_files(const std::filesystem::path& directory,
                                      std::span<const TokenizerRule> rules);

// The class that AutoTokenizer takes; empty if no file names one.
std::string class_name(const CheckpointFiles& files);
// Its rule; nullptr if there is none.
const TokenizerRule* rule_of(const CheckpointFiles& files, std::span<const TokenizerRule> rules);
// Whether tokenizer_config.json has the flag, and it is true. No flag has an empty name.
bool is_set(const OptionalFile& config, const std::string& flag);

}  // namespace tandem
