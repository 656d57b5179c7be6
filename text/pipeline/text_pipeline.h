// The stages between text and ids, in the order in which encode() runs them:
//   Normalizer → AddedTokens (added_tokens.h) → PreTokenizer → TokenModel → PostProcessor,
// and Decoder on the way back. Each stage is one component of tokenizer.json, immutable and usable
// from any thread; a new one is a class here and a line in its make_… function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/aligned_text.h"
#include "text/pipeline/growth_budget.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace tandem {

// Strings passed between stages are valid UTF-8, and live until the call returns. What a stage adds
// to a text comes out of the budget.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string normalize(std::string_view text, GrowthBudget& budget) const = 0;
  // The same with all that the library's alignment does to the text. Throws Misaligned.
  virtual void align(AlignedText& text, GrowthBudget& budget) const = 0;
  // Whether it changes what comes from the input (AlignedText::transform).
  virtual bool transforms() const { return true; }
  // Whether normalize() is not enough for steps behind it that transform the whole text (`behind`)
  // or parts of it (`parts`).
  virtual bool misaligns(bool /*behind*/, bool /*parts*/) const { return false; }
};

struct Word {
  std::string_view text;
  bool starts = true;  // where the input begins
};
using WordSink = std::function<void(const Word&)>;
using AlignedSink = std::function<void(const AlignedText&)>;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Calls `sink` with the words of `text`, in order; none is empty.
  virtual void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const = 0;
  // The same with all that the library's alignment does to the words. Throws Misaligned. By
  // default for a split() whose words are parts of the text.
  virtual void align(const AlignedText& text, GrowthBudget& budget, const AlignedSink& sink) const;
  // Whether it changes what comes from the input (AlignedText::transform).
  virtual bool transforms() const { return false; }
  // Whether words depend on where the input begins; and whether Word::starts is enough for that.
  virtual bool asks_for_start() const { return false; }
  virtual bool takes_start() const { return false; }
};

// The state of one encode() call while it turns words into ids: scratch memory, a cache.
class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  virtual void encode(std::string_view word, std::vector<int32_t>& ids) = 0;
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // The budget is that of the encode() call.
  virtual std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const = 0;
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;
  virtual std::optional<std::string_view> id_to_token(int32_t id) const = 0;
  // The token that decoding uses for an id without a token; nothing by default.
  virtual std::optional<std::string_view> outside_token(int32_t) const { return std::nullopt; }
  virtual int32_t num_tokens() const = 0;
  virtual int32_t max_id() const = 0;  // -1 if there is no token
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual std::vector<int32_t> process(std::vector<int32_t> ids, bool add_special) const = 0;
  virtual std::vector<int32_t> process_pair(std::vector<int32_t> first, std::vector<int32_t> second,
                                            bool add_special) const = 0;
  virtual int num_suffix_tokens() const = 0;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // The bytes of a token that is not the first one.
  virtual std::string token_bytes(std::string_view token) const = 0;
  // The text that a token adds behind another one, if the text ends there.
  virtual std::string inner_text(std::string_view token) const { return token_bytes(token); }
  // nullptr: text is the join of all tokens' bytes, as the following functions define.
  virtual std::unique_ptr<TokenStream> stream() const { return nullptr; }
  // The text is the join of all tokens' bytes, wherever a token stands.
  virtual bool works_bytewise() const { return false; }
  // Tokenizer's, for a token.
  virtual std::optional<char> byte_of(std::string_view) const { return std::nullopt; }
  virtual bool trims_spaces() const { return false; }
  virtual bool loses_space(std::string_view) const { return false; }
  virtual bool spaces_special() const { return false; }
  virtual bool drops_invalid() const { return false; }
  virtual std::string_view ending(std::string_view) const { return {}; }
};

// From the component's JSON. InputError: kInvalidModel if it is malformed, kNotSupported if its
// type is not built, both with file and key.
std::unique_ptr<Normalizer> make_normalizer(const JsonView& json);
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonView& json);
std::unique_ptr<TokenModel> make_token_model(const JsonView& json);
std::unique_ptr<PostProcessor> make_post_processor(const JsonView& json);
std::unique_ptr<Decoder> make_decoder(const JsonView& json);
std::unique_ptr<Decoder> make_joining_decoder();  // tokens with a space between them

// Components may contain each other ("Sequence"). Files with more parts in one, or deeper nesting,
// are refused as attempts to exhaust memory.
inline constexpr int kMaxNesting = 16;
inline constexpr size_t kMaxParts = 64;

// The component's parts: those of its array `key`, and of sequences in it.
std::vector<JsonView> flat_parts(const JsonView& json, const char* key);

// Size of the array `json` if that is at most kMaxParts, else an error.
size_t num_parts(const JsonView& json);

}  // namespace tandem
