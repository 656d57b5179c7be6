// How a tokenizer class of HuggingFace makes its stages from the files of a checkpoint. Model
// families fill it in (models/family.h); Tokenizer::load() takes the rules of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/added_tokens.h"

namespace tandem {

struct PieceModel;  // text/sentencepiece/piece_model.h
class JsonView;     // text/tokenizer_json.h

struct TokenizerRule {
  enum class Kind {
    kByteLevelBpe,   // tokenizer.json, or vocab.json and merges.txt
    kUnigram,        // tokenizer.json, or pieces; words begin with SentencePiece's symbol
    kPieceBpe,       // the same
    kTextBpe,        // the same; that symbol for spaces, bytes for unknown characters
    kSentencePiece,  // models for texts, vocab.json for ids
    kSubwordBpe,     // vocab.json and merges.txt, with "@@" where a word goes on
    kBytes,          // no file: each byte is a token
  };
  // Of words that begin with SentencePiece's symbol.
  struct WordOptions {
    enum class Normalizer {
      kNone,
      kTable,           // the file's table of characters
      kTableAndSpaces,  // and one space for several
    } normalizer = Normalizer::kTable;
    bool split_whitespace = true;  // white space, which goes, parts words
  };
  // The vocabulary of a SentencePiece model where there is no tokenizer.json: pieces without the
  // first ones, between other tokens.
  struct PieceFile {
    struct Token {
      std::string content;
      double score = 0;
    };
    using Tokens = std::vector<Token>;
    std::string name = {};  // of the file
    size_t replaced = 0;    // pieces
    // In place of those, and behind the last; of tokenizer_config.json. Throw InputError.
    Tokens (*before)(const JsonView& config) = nullptr;
    Tokens (*behind)(const JsonView& config) = nullptr;
  };
  struct SentencePieceOptions {
    std::string source = "source.spm", target = "target.spm";  // of texts, of ids; may be one file
    bool codes = false;  // a text may begin with a code such as >>fra<<, which is a token as it is
    bool space_behind_special = false;  // in decoded text
    bool loses_spaces = true;           // decoding: the first of a run of pieces, as the library
    bool tidies = false;                // decoding takes spaces before punctuation away
    // Ids of the tokens, {"token": id}, of the source's pieces and tokenizer_config.json; nullptr:
    // vocab.json has them. Throws InputError.
    nlohmann::json (*vocabulary)(const PieceModel& pieces, const nlohmann::json& config) = nullptr;
    // With this flag in tokenizer_config.json, this file has the ids of decoded tokens.
    std::string target_flag = {}, target_vocabulary = {};
  };
  // Without a file: ids of bytes stand behind the special tokens.
  struct ByteOptions {
    int32_t extra_ids = 0;  // <extra_id_0> …, unless tokenizer_config.json says otherwise
  };
  // How the token of a language is written (a name that is written so is the token), and which
  // counts where no file names a source; empty: none. Which tokens these are the files say.
  struct Languages {
    // Where the token of a target's language (tgt_lang) goes.
    enum class Target {
      kNone,          // there are no languages
      kForcedBos,     // is the first token that is generated: forced_bos_token_id
      kDecoderStart,  // is decoder_start_token_id, unless the model's settings force a language
      kSourcePrefix,  // stands before the source's tokens
    };
    std::string before, behind, fallback;
    Target target = Target::kNone;
    std::string token(const std::string& name) const;
  };
  using Tokens = std::vector<std::pair<std::string, AddedToken>>;  // "bos_token" → token
  // What stands around texts. A part is "$A" or "$B" for a text, "$source" for the token of the
  // source's language (src_lang), the key of a special token ("eos_token"), or a token as it is.
  using Template = std::vector<std::string>;
  // Templates that count where this flag of tokenizer_config.json is set.
  struct Alternative {
    std::string flag = {};
    Template single = {}, pair = {};
  };

  std::string class_name;  // of tokenizer_class, without "Fast"
  std::string model_type;  // of config.json: takes this class where no file names one
  Kind kind = Kind::kByteLevelBpe;
  WordOptions words = {};
  PieceFile pieces = {};
  SentencePieceOptions sentencepiece = {};
  ByteOptions bytes = {};
  Languages languages = {};
  bool add_prefix_space = false;  // unless tokenizer_config.json says otherwise
  Tokens special_tokens = {};     // those that no file names
  // Empty: what tokenizer.json says, and nothing without that file.
  Template single = {}, pair = {};
  Alternative alternative = {};
  // Tokens that decoded text leaves out, special or not. nullptr: none.
  bool (*left_out)(std::string_view token) = nullptr;
  // With one of these keys in tokenizer_config.json, too, only tokenizer.json knows the template.
  std::vector<std::string> template_keys = {};
};

inline std::string TokenizerRule::Languages::token(const std::string& name) const {
  const bool is_token = !before.empty() && name.starts_with(before) && name.ends_with(behind);
  return name.empty() || is_token ? name : before + name + behind;
}

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
