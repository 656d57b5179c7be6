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

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace tandem {

// Strings passed between stages are valid UTF-8, and live until the call returns.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string normalize(std::string_view text) const = 0;
  // Whether normalize(text) begins with the normalised first character of the input. `starts`:
  // whether `text` begins with the input's first character.
  virtual bool keeps_start(std::string_view, bool starts) const { return starts; }
};

struct Word {
  std::string_view text;
  bool starts = true;  // with what stands for the first character of the input
};
using WordSink = std::function<void(const Word&)>;

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Calls `sink` with the words of `text`, in order; none is empty.
  virtual void split(const Word& text, const WordSink& sink) const = 0;
  // Whether words depend on Word::starts.
  virtual bool asks_for_start() const { return false; }
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
  virtual std::unique_ptr<WordEncoder> word_encoder() const = 0;
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
