// Parameters of requests that generate nothing (params.h): those that pool the encoder's output,
// and those that score a target. A target's tokens but the last are a decoder prompt with
// prompt_logprobs; the last one is forced, as an end token at the length's limit is, and its
// log-probability is that of the logits before. So nothing is generated in vain, and a target may
// fill the decoder to its last position.
#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "runtime/request/params.h"

namespace tandem {

using nlohmann::json;

namespace {

// All that means something where nothing is chosen.
constexpr std::array kOfScoring = {
    "logprobs",    "truncate_prompt_tokens", "allow_empty_prompt", "add_special_tokens",
    "cache_salt",  "decoder_start_token_id", "bos_token_id",       "eos_token_id",
    "pad_token_id"};
constexpr std::array kOfPooling = {"truncate_prompt_tokens", "allow_empty_prompt",
                                   "add_special_tokens", "cache_salt"};

template <class Names>
void refuse_others(const json& params, const Names& names, const char* what) {
  for (const auto& [name, value] : params.items())
    if (!value.is_null() && std::count(names.begin(), names.end(), name) == 0)
      throw invalid_request(name, std::string("has no effect on ") + what + "; leave it out");
}

}  // namespace

proto::SamplingParams ParamsResolver::resolve_scoring(const json& params,
                                                      const PromptLengths& lengths,
                                                      int32_t last_token) const {
  const GenerationOptions request = read_request_options(params, vocab_size_);
  refuse_others(params, kOfScoring, "the scores of a target");
  proto::SamplingParams out;
  out.set_n(1);
  out.set_num_beams(1);
  out.set_temperature(1);
  out.set_top_p(1);
  out.set_typical_p(1);
  out.set_repetition_penalty(1);
  out.set_encoder_repetition_penalty(1);
  out.set_length_penalty(1);
  out.set_max_tokens(1);
  out.set_begin_index(lengths.decoder_prompt_len);
  out.add_forced_eos_token_id(last_token);
  const auto top = static_cast<int32_t>(request.logprobs ? *request.logprobs : 0);
  out.set_logprobs(top);
  out.set_prompt_logprobs(top);
  if (request.cache_salt) out.set_cache_salt(*request.cache_salt);
  return out;
}

proto::SamplingParams ParamsResolver::resolve_pooling(const json& params,
                                                      const proto::Pooling& pooling) const {
  read_request_options(params, vocab_size_);
  refuse_others(params, kOfPooling, "embeddings");
  proto::SamplingParams out;
  out.set_n(1);
  *out.mutable_pooling() = pooling;
  return out;
}

std::vector<int32_t> ParamsResolver::end_tokens(const json& params) const {
  const GenerationOptions request = read_request_options(params, vocab_size_);
  if (request.eos_token_id.given) return request.eos_token_id ? *request.eos_token_id : Ids();
  if (defaults_.eos_token_id) return *defaults_.eos_token_id;
  std::vector<int32_t> ids;
  for (const int id : config_.eos_token_id)
    if (id >= 0 && id < vocab_size_) ids.push_back(id);
  return ids;
}

}  // namespace tandem
