// How a tokenizer class of HuggingFace makes its stages from the files of a checkpoint. Model
// families fill it in (models/family.h); Tokenizer::load() takes the rules of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/tokenizer_json.h"

namespace tandem {

struct PieceModel;  // text/sentencepiece/piece_model.h

struct TokenizerRule {
  enum class Kind {
    kByteLevelBpe,   // tokenizer.json, or vocab.json and merges.txt
    kUnigram,        // tokenizer.json, or pieces; words begin with SentencePiece's symbol
    kPieceBpe,       // the same
    kTextBpe,        // the same; that symbol for spaces, bytes for unknown characters
    kWordPiece,      // tokenizer.json, or vocab.txt
    kFile,           // tokenizer.json as it is, whatever class the files name
    kSentencePiece,  // models for texts, vocab.json for ids
    kSubwordBpe,     // vocab.json and merges.txt, with "@@" where a word goes on
    kMosesBpe,       // vocab-src.json, vocab-tgt.json and merges.txt; Moses' words
    kBytes,          // no file: each byte is a token, behind the special tokens
  };
  // The input from which a class makes its stages.
  struct StageInput {
    JsonView config;              // tokenizer_config.json
    const nlohmann::json& table;  // the file's table of characters, as a normalizer; or null
    std::function<std::string(const std::string& key)> token;  // the content of "unk_token", …
  };
  // Of words that begin with SentencePiece's symbol.
  struct WordOptions {
    enum class Normalizer {
      kNone,
      kTable,           // the file's table of characters
      kTableAndSpaces,  // and one space for several
    } normalizer = Normalizer::kTable;
    bool split_whitespace = true;  // white space, which goes, parts words
    // Of kTableAndSpaces where the file has no table.
    enum class WithoutTable {
      kSpaces,   // one space for several
      kLines,    // and a space for the end of a line
      kNothing,  // the text stays as it is
    } without_table = WithoutTable::kSpaces;
    // The unknown token's id, whatever the file says; found in [["token", score], …].
    int32_t unknown_id = 3;
    int32_t (*find_unknown)(const nlohmann::json& vocabulary, const std::string& token) = nullptr;
    // The class's changes of the vocabulary. nullptr: none.
    void (*change_vocabulary)(const StageInput& in, nlohmann::json& vocabulary) = nullptr;
    bool prefix_option = false;  // words begin so unless add_prefix_space is false
  };
  // The vocabulary of a SentencePiece model where there is no tokenizer.json: pieces without the
  // first ones, between other tokens.
  struct PieceFile {
    struct Token {
      std::string content;
      double score = 0;
    };
    using Tokens = std::vector<Token>;
    std::string name = {};  // of the file; of kWordPiece too
    size_t replaced = 0;    // pieces
    // Tokens before the pieces (in place of the dropped ones) and after them, from
    // tokenizer_config.json. Throw InputError.
    Tokens (*before)(const JsonView& config) = nullptr;
    Tokens (*behind)(const JsonView& config) = nullptr;
  };
  struct SentencePieceOptions {
    std::string source = "source.spm", target = "target.spm";  // of texts, of ids; may be one file
    bool codes = false;  // a text may begin with a code such as >>fra<<, which is a token as it is
    bool space_behind_special = false;  // in decoded text
    bool loses_spaces = true;           // decoding: the first of a run of pieces, as the library
    bool tidies = false;                // decoding takes spaces before punctuation away
    bool outside_pieces = false;        // ids outside the vocabulary are decoded as those of pieces
    bool numbers_pieces = false;  // new tokens are numbered as if the pieces were the vocabulary
    // Ids of the tokens, {"token": id}, of the source's pieces and tokenizer_config.json; nullptr:
    // vocab.json has them. Throws InputError.
    nlohmann::json (*vocabulary)(const PieceModel& pieces, const JsonView& config) = nullptr;
    // With this flag in tokenizer_config.json, this file has the ids of decoded tokens.
    std::string target_flag = {}, target_vocabulary = {};
  };
  // The form of a language's token (a name in that form is the token), and the default if no file
  // names a source; empty: none. The files list the tokens.
  struct Languages {
    // Where the token of a target's language (tgt_lang) goes.
    enum class Target {
      kNone,           // there are no languages
      kForcedBos,      // is the first token that is generated: forced_bos_token_id
      kDecoderStart,   // is decoder_start_token_id, unless the model's settings force a language
      kDecoderPrompt,  // is the decoder's prompt, behind decoder_start_token_id
      kSourcePrefix,   // stands before the source's tokens
    };
    std::string before, behind, fallback;
    Target target = Target::kNone;
    // The names of all languages, in the order of their ids. These follow the vocabulary, whatever
    // the files list. nullptr: languages are ordinary tokens. Throws InputError.
    std::vector<std::string> (*table)(const JsonView& config) = nullptr;
    // The default where it depends on tokenizer_config.json; nullptr: `fallback`.
    std::string (*fallback_of)(const JsonView& config) = nullptr;
    // Files may name no other source than those of `table`, or of the rule's extra tokens. Else a
    // name that the vocabulary lacks is the unknown token.
    bool only_own = false;
    std::string token(const std::string& name) const;
  };
  using Tokens = std::vector<std::pair<std::string, AddedToken>>;  // "bos_token" → token
  // The parts around texts. "$A" and "$B" are texts, "$source" is the token of the source's
  // language (src_lang). Others are the key of a special token ("eos_token") or a token itself.
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
  // Puts the class's normalizer, pre-tokenizer and decoder, and its changes of the model, into the
  // document. nullptr: the stages of the kind. Throws InputError.
  void (*stages)(const StageInput& in, nlohmann::json& document) = nullptr;
  PieceFile pieces = {};
  SentencePieceOptions sentencepiece = {};
  Languages languages = {};
  bool add_prefix_space = false;  // unless tokenizer_config.json says otherwise
  Tokens special_tokens = {};     // those that no file names
  // Further special tokens, where tokenizer_config.json lists none. nullptr: there are none.
  std::vector<std::string> (*extra_tokens)(const JsonView& config) = nullptr;
  bool extra_with_pieces = true;  // also where the vocabulary is made of pieces
  // Of a tokenizer that runs in Python: tokens of its vocabulary that no file can change.
  std::vector<std::string> (*reserved_tokens)(const JsonView& config) = nullptr;
  // A tokenizer.json with stages of bytes counts as it is, though it names the class.
  bool but_byte_level = false;
  // Decoding takes spaces before punctuation away, unless tokenizer_config.json says otherwise.
  bool tidies = false;
  bool outside_is_unknown = false;  // ids without a token are decoded as unk_token
  // Empty: tokenizer.json's template, and none without that file.
  Template single = {}, pair = {};
  bool file_template = false;  // tokenizer.json's counts before these
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
