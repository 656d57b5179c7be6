// Lengths become numbers of generated tokens. Counting follows transformers 5.23
// (GenerationMixin._prepare_generated_length); docs/parameters.md has it in words.
#include "runtime/request/params/length_rules.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/request/request_error.h"

namespace tandem {

using Options = proto::GenerationOptions;

namespace {

constexpr int64_t kHuggingFaceNewTokens = 20;  // when nothing at all is said

// One limit in the terms of the request, as generated tokens.
int64_t explicit_max(const OptionSources& s, const std::string& name, int64_t asked,
                     int64_t not_generated) {
  const int64_t tokens = asked - not_generated;
  if (tokens < 1)
    throw invalid_request(name, std::to_string(asked) +
                                    " leaves no token to generate: the decoder prompt has " +
                                    std::to_string(s.prompt_len()) + " tokens, of which " +
                                    std::to_string(not_generated) + " count; ask for at least " +
                                    std::to_string(not_generated + 1));
  if (tokens > s.room())
    throw InputError(ErrorKind::kResource,
                     name + ": " + std::to_string(asked) +
                         " is too many: behind a decoder prompt of " +
                         std::to_string(s.prompt_len()) + " tokens the model's " +
                         std::to_string(s.positions > 0 ? s.positions : kUnlimited) +
                         " positions allow at most " + std::to_string(s.room() + not_generated),
                     name);
  return tokens;
}

void check_room(const OptionSources& s) {
  if (s.room() >= 1) return;
  throw ContextLengthError("decoder_prompt", s.positions, s.prompt_len());
}

int64_t max_tokens(const OptionSources& s) {
  const Options& r = s.request;
  // vLLM's name: clients send what their largest model takes.
  if (r.has_max_tokens()) return std::min<int64_t>(r.max_tokens(), s.room());
  if (r.has_max_new_tokens())
    return explicit_max(s, "max_new_tokens", r.max_new_tokens(), s.counted_as_new());
  // In HuggingFace the model's number of new tokens comes before the request's length.
  const bool model_says = s.both.has_max_new_tokens();
  if (r.has_max_length() && !model_says)
    return explicit_max(s, "max_length", r.max_length(), s.prompt_len());
  if (is_off(r, "max_tokens")) return s.room();
  // The model's and HuggingFace's defaults are cut to what is possible.
  if (s.both.has_max_new_tokens())
    return std::clamp<int64_t>(s.both.max_new_tokens() - s.counted_as_new(), 1, s.room());
  if (is_off(r, "max_length")) return s.room();
  if (s.model.has_max_length()) {
    const int64_t tokens = s.model.max_length() - s.prompt_len();
    if (tokens < 1)
      throw invalid_request("max_length", "the model's default of " +
                                              std::to_string(s.model.max_length()) +
                                              " leaves no room behind a decoder prompt of " +
                                              std::to_string(s.prompt_len()) +
                                              " tokens; set max_new_tokens or max_tokens");
    return std::min(tokens, s.room());
  }
  return std::min(kHuggingFaceNewTokens - s.counted_as_new(), s.room());
}

// Tokens before which EOS is masked.
int64_t min_tokens(const OptionSources& s) {
  const Options& r = s.request;
  if (r.has_min_tokens()) return r.min_tokens();
  if (r.has_min_new_tokens()) return r.min_new_tokens() - s.counted_as_new();
  if (s.both.has_min_new_tokens()) return s.both.min_new_tokens() - s.counted_as_new();
  if (s.both.has_min_length()) return s.both.min_length() - s.prompt_len();
  return 0;
}

}  // namespace

void set_lengths(const OptionSources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  if (r.has_max_tokens() && (r.has_max_new_tokens() || r.has_max_length()))
    throw conflict("max_tokens", "cannot be combined with max_new_tokens or max_length");
  if (r.has_min_tokens() && (r.has_min_new_tokens() || r.has_min_length()))
    throw conflict("min_tokens", "cannot be combined with min_new_tokens or min_length");
  check_room(s);
  const int64_t most = max_tokens(s);
  const int64_t least = min_tokens(s);
  if (r.has_min_tokens() && least > most)
    throw conflict("min_tokens", std::to_string(least) + " is more than the " +
                                     std::to_string(most) + " tokens that may be generated");
  out.set_max_tokens(static_cast<int32_t>(most));
  out.set_min_tokens(static_cast<int32_t>(std::clamp<int64_t>(least, 0, most)));
  if (r.has_min_tokens()) out.set_min_tokens_stop(static_cast<int32_t>(least));
}

}  // namespace tandem
