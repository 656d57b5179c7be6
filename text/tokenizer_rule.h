// How a tokenizer class of HuggingFace makes its stages from the files of a checkpoint. Model
// families fill it in (models/family.h); Tokenizer::load() takes the rules of all of them.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/added_tokens.h"

namespace tandem {

struct TokenizerRule {
  enum class Kind {
    kByteLevelBpe,   // tokenizer.json, or vocab.json and merges.txt
    kUnigram,        // tokenizer.json, or spiece.model; words are what white space parts
    kSentencePiece,  // source.spm and target.spm for texts, vocab.json for ids
  };
  using Tokens = std::vector<std::pair<std::string, AddedToken>>;  // "bos_token" → token
  // What stands around texts. A part is "$A" or "$B" for a text, the key of a special token
  // ("eos_token"), or a token as it is.
  using Template = std::vector<std::string>;

  std::string class_name;  // of tokenizer_class, without "Fast"
  std::string model_type;  // of config.json: takes this class where no file names one
  Kind kind = Kind::kByteLevelBpe;
  bool add_prefix_space = false;  // unless tokenizer_config.json says otherwise
  Tokens special_tokens = {};     // those that no file names
  // Empty: what tokenizer.json says, and nothing without that file.
  Template single = {}, pair = {};
  // With one of these keys in tokenizer_config.json, too, only tokenizer.json knows the template.
  std::vector<std::string> template_keys = {};
};

// {{"bos_token", "<s>"}, …}: special tokens that are looked for in the text as it is.
inline TokenizerRule::Tokens class_tokens(
    std::initializer_list<std::pair<const char*, const char*>> contents) {
  TokenizerRule::Tokens out;
  for (const auto& [key, content] : contents) {
    AddedToken token;
    token.content = content;
    token.special = true;
    token.normalized = false;
    out.emplace_back(key, token);
  }
  return out;
}

}  // namespace tandem
