// Text ↔ ids, identical to HuggingFace's. Immutable after load(); usable from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pair_cut.h"

namespace tandem {

class LanguageSet;     // text/languages.h
struct TokenizerRule;  // text/tokenizer_rule.h

// The text of a growing sequence of tokens, in pieces.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::string append(std::string_view token) = 0;  // new text, which no later token changes
  virtual std::string finish() = 0;                        // what was held back
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Reads tokenizer.json, or the files of the class's rule, with tokenizer_config.json and
  // special_tokens_map.json where they are. Throws InputError naming the file and the key. With the
  // rules of all model families: load_tokenizer() of models/family.h.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& directory,
                                         std::span<const TokenizerRule> rules);

  // `text` must be valid UTF-8, as by check_utf8. add_special: with the model's BOS/EOS around it.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special = true) const = 0;
  // encode() of a text in another language than the checkpoint's (HuggingFace's src_lang). Throws
  // InputError for a language that the tokenizer lacks.
  virtual std::vector<int32_t> encode_from(const std::string& source_language,
                                           std::string_view text, bool add_special = true) const;
  // The languages of texts and targets; none by default.
  virtual const LanguageSet& languages() const;
  // Two texts as one input, in the way of the model (BART: <s> first </s></s> second </s>).
  // cut: how their ends are cut off, as HuggingFace's truncation.
  virtual std::vector<int32_t> encode_pair(std::string_view first, std::string_view second,
                                           bool add_special = true, const PairCut& cut = {}) const;
  // Invalid UTF-8 becomes U+FFFD, or nothing if drops_invalid(), as in HuggingFace; ids without a
  // token are skipped.
  virtual std::string decode(const std::vector<int32_t>& ids, bool skip_special) const = 0;
  // A token as the vocabulary has it ("Ġa", "▁a", "<0xE2>"); nothing: there is none of that id.
  virtual std::optional<std::string> id_to_token(int32_t) const { return std::nullopt; }
  // The bytes of one token (an added token: its text), for incremental detokenisation.
  virtual std::string token_bytes(int32_t id) const = 0;
  // The text that the token adds behind another one, as HuggingFace's stop strings define it.
  virtual std::string inner_text(int32_t id) const { return token_bytes(id); }
  // Makes the text of a growing sequence of tokens, for a Detokenizer. nullptr: the text is the
  // join of all tokens' bytes, as the following functions define.
  virtual std::unique_ptr<TokenStream> token_stream() const { return nullptr; }
  // What a stream takes; without data: nothing.
  virtual std::string_view token_text(int32_t) const { return {}; }
  virtual bool is_special(int32_t id) const = 0;
  // Whether it was added to the vocabulary of the model, special or not.
  virtual bool is_added(int32_t id) const { return is_special(id); }
  // Whether decode() joins the token to others like a special one, if it does not skip it.
  virtual bool stands_apart(int32_t id) const { return is_special(id); }
  // With trims_spaces(): the byte of a token such as <0xE2>. Neighbouring bytes form characters, or
  // become U+FFFD each.
  virtual std::optional<char> byte_of(int32_t) const { return std::nullopt; }
  // Whether decode() treats spaces as SentencePiece does:
  // - no spaces at either end of the text;
  // - one behind a special token if spaces_special();
  // - one fewer for a token that loses_space(), at the start and behind a special token.
  virtual bool trims_spaces() const { return false; }
  virtual bool loses_space(int32_t) const { return false; }
  virtual bool spaces_special() const { return false; }
  // Whether decode() removes spaces before punctuation (tidy_spaces()).
  virtual bool tidies() const { return false; }
  virtual bool drops_invalid() const { return false; }
  // Whether decode() always leaves the token out, whatever skip_special is. Bytes before and behind
  // it do not join to a character.
  virtual bool leaves_out(int32_t) const { return false; }
  // With trims_spaces(): the text behind the bytes of the last token.
  virtual std::string_view ending(int32_t) const { return {}; }
  virtual int32_t size() const = 0;  // largest id + 1
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;
  // How many tokens encode() puts behind the text (truncation keeps them).
  virtual int num_suffix_tokens() const = 0;
  virtual int model_max_length() const = 0;  // 0: not known
};

// HuggingFace's clean_up_tokenization: "a , b" becomes "a, b", "do n't" becomes "don't".
std::string tidy_spaces(std::string text);

// Text of a growing sequence of ids, piece by piece; never half a UTF-8 character. The pieces,
// joined, are decode() of all ids.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special);
  std::string append(int32_t id);  // new text that is certain now
  // The text held back: U+FFFD for an unfinished character. No white space if the tokenizer trims
  // it.
  std::string finish();

 private:
  void append_trimmed(int32_t id);
  void append_characters(bool all);
  size_t certain(size_t end) const;
  std::string take(size_t bytes);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::unique_ptr<TokenStream> stream_;  // may be null
  std::string pending_;                  // not given yet
  // Of those that trim spaces:
  std::string_view ending_;  // of the last token
  std::string bytes_;        // of the tokens at the end that are bytes; behind `pending_`
  bool starts_ = true;       // no text since a special token, or the start
  bool given_ = false;       // some text was
};

}  // namespace tandem
