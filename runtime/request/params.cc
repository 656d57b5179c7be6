// Resolution of a request's parameters: request over model over HuggingFace's defaults; lengths
// become numbers of generated tokens; conflicts become errors. Counting follows transformers 5.23
// (GenerationMixin._prepare_generated_length); docs/parameters.md has it in words.
#include "runtime/request/params.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/error.h"
#include "runtime/request/params_not_built.h"
#include "runtime/request/params_sources.h"
#include "runtime/request/params_tokens.h"

namespace tandem {

using nlohmann::json;

namespace {

using Options = GenerationOptions;
constexpr int64_t kHuggingFaceNewTokens = 20;  // when nothing at all is said
constexpr int64_t kHuggingFaceTopK = 50;

// One limit in the terms of the request, as generated tokens.
int64_t explicit_max(const Sources& s, const std::string& name, int64_t asked,
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

void check_room(const Sources& s) {
  if (s.room() >= 1) return;
  throw InputError(ErrorKind::kResource,
                   "decoder_prompt: has " + std::to_string(s.prompt_len()) +
                       " tokens, the model has " + std::to_string(s.positions) + " positions",
                   "decoder_prompt");
}

int64_t max_tokens(const Sources& s) {
  const Options& r = s.request;
  if (r.max_tokens) return explicit_max(s, "max_tokens", *r.max_tokens, 0);
  if (r.max_new_tokens)
    return explicit_max(s, "max_new_tokens", *r.max_new_tokens, s.counted_as_new());
  if (r.max_length) return explicit_max(s, "max_length", *r.max_length, s.prompt_len());
  if (r.max_tokens.is_null()) return s.room();
  // The model's and HuggingFace's defaults are cut to what is possible.
  if (s.model.max_new_tokens && !r.max_new_tokens.given)
    return std::clamp<int64_t>(*s.model.max_new_tokens - s.counted_as_new(), 1, s.room());
  if (r.max_length.is_null()) return s.room();
  if (s.model.max_length) {
    const int64_t tokens = *s.model.max_length - s.prompt_len();
    if (tokens < 1)
      throw invalid_request("max_length", "the model's default of " +
                                              std::to_string(*s.model.max_length) +
                                              " leaves no room behind a decoder prompt of " +
                                              std::to_string(s.prompt_len()) +
                                              " tokens; set max_new_tokens or max_tokens");
    return std::min(tokens, s.room());
  }
  return std::min(kHuggingFaceNewTokens - s.counted_as_new(), s.room());
}

// Tokens before which EOS is masked.
int64_t min_tokens(const Sources& s) {
  const Options& r = s.request;
  if (r.min_tokens) return *r.min_tokens;
  if (r.min_new_tokens) return *r.min_new_tokens - s.counted_as_new();
  if (r.min_length) return *r.min_length - s.prompt_len();
  if (s.model.min_new_tokens && !r.min_new_tokens.given)
    return *s.model.min_new_tokens - s.counted_as_new();
  if (s.model.min_length && !r.min_length.given) return *s.model.min_length - s.prompt_len();
  return 0;
}

void set_lengths(const Sources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  if (r.max_tokens && (r.max_new_tokens || r.max_length))
    throw conflict("max_tokens", "cannot be combined with max_new_tokens or max_length");
  if (r.min_tokens && (r.min_new_tokens || r.min_length))
    throw conflict("min_tokens", "cannot be combined with min_new_tokens or min_length");
  check_room(s);
  const int64_t most = max_tokens(s);
  const int64_t least = min_tokens(s);
  if (r.min_tokens && least > most)
    throw conflict("min_tokens", std::to_string(least) + " is more than the " +
                                     std::to_string(most) + " tokens that may be generated");
  out.set_max_tokens(static_cast<int32_t>(most));
  out.set_min_tokens(static_cast<int32_t>(std::clamp<int64_t>(least, 0, most)));
  if (r.min_tokens) out.set_min_tokens_stop(static_cast<int32_t>(least));
}

// do_sample decides where the request has it; else a request that sets a sampling parameter asks
// for sampling, except temperature 0; else the model decides.
bool samples(const Sources& s) {
  const Options& r = s.request;
  if (r.do_sample.given) return value_or(r.do_sample, false);
  if (r.temperature && *r.temperature == 0) return false;
  if (r.temperature || r.top_k || r.top_p || r.min_p || r.typical_p || r.epsilon_cutoff ||
      r.eta_cutoff || r.top_h)
    return true;
  return value_or(s.model.do_sample, false);
}

void set_sampling(const Sources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  out.set_do_sample(samples(s));
  const double temperature = value_or(s(&Options::temperature), 1.0);
  // Below that, dividing by it overflows.
  if (out.do_sample() && temperature < 1e-6)
    throw invalid_request("temperature",
                          "must be > 1e-6 for sampling; for greedy decoding set "
                          "do_sample to false, or temperature to 0 without do_sample");
  out.set_temperature(temperature);
  const int64_t top_k =
      value_or<int64_t>(s(&Options::top_k), s(&Options::top_k).given ? 0 : kHuggingFaceTopK);
  out.set_top_k(static_cast<int32_t>(std::max<int64_t>(top_k, 0)));
  out.set_top_p(value_or(s(&Options::top_p), 1.0));
  out.set_min_p(value_or(s(&Options::min_p), 0.0));
  out.set_typical_p(value_or(s(&Options::typical_p), 1.0));
  out.set_epsilon_cutoff(value_or(s(&Options::epsilon_cutoff), 0.0));
  out.set_eta_cutoff(value_or(s(&Options::eta_cutoff), 0.0));
  out.set_top_h(value_or(s(&Options::top_h), 0.0));
  if (r.seed && *r.seed != -1) out.set_seed(static_cast<uint64_t>(*r.seed));
}

// vLLM v0's: the n best of so many samples.
void set_best_of(const Sources& s, int64_t beams, proto::SamplingParams& out) {
  const int64_t best_of = value_or<int64_t>(s.request.best_of, out.n());
  if (best_of < out.n())
    throw conflict("best_of", std::to_string(best_of) + " is less than the " +
                                  std::to_string(out.n()) + " sequences to return (n)");
  if (best_of > out.n() && beams > 1)
    throw conflict("best_of", "cannot be combined with beam search (num_beams " +
                                  std::to_string(beams) +
                                  (s.request.num_beams.given ? "" : " by the model's defaults") +
                                  "), which returns its n best anyway; set num_beams to 1");
  if (best_of > 1 && beams == 1 && !out.do_sample())
    throw conflict("best_of", std::to_string(best_of) +
                                  " sequences of greedy decoding would all be the same; set "
                                  "do_sample to true, or a temperature > 0");
  if (best_of > out.n()) out.set_best_of(static_cast<int32_t>(best_of));
}

void set_sequences(const Sources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  if (r.n && r.num_return_sequences && *r.n != *r.num_return_sequences)
    throw conflict("n", std::to_string(*r.n) + " and num_return_sequences " +
                            std::to_string(*r.num_return_sequences) + " contradict each other");
  const int64_t beams = value_or<int64_t>(s(&Options::num_beams), 1);
  const bool by_n = r.n.value.has_value();
  const int64_t n = by_n ? *r.n : value_or<int64_t>(s(&Options::num_return_sequences), 1);
  if (beams > 1 && n > beams)
    throw conflict(by_n ? "n" : "num_return_sequences",
                   std::to_string(n) + " sequences of " + std::to_string(beams) +
                       " beams: no more than num_beams can be returned");
  if (n > 1 && beams == 1 && !out.do_sample())
    throw conflict(by_n ? "n" : "num_return_sequences",
                   std::to_string(n) +
                       " sequences of greedy decoding would all be the same; set "
                       "do_sample to true, a temperature > 0, or num_beams");
  out.set_n(static_cast<int32_t>(n));
  set_best_of(s, beams, out);
  out.set_num_beams(static_cast<int32_t>(beams));
  out.set_prompt_tokens_counted_as_generated(static_cast<int32_t>(s.counted_as_new()));
  out.set_length_penalty(value_or(s(&Options::length_penalty), 1.0));
  switch (value_or(s(&Options::early_stopping), StopEarly::kFalse)) {
    case StopEarly::kFalse:
      out.set_early_stopping(proto::SamplingParams::EARLY_STOPPING_FALSE);
      break;
    case StopEarly::kTrue:
      out.set_early_stopping(proto::SamplingParams::EARLY_STOPPING_TRUE);
      break;
    case StopEarly::kNever:
      out.set_early_stopping(proto::SamplingParams::EARLY_STOPPING_NEVER);
      break;
  }
}

void set_penalties(const Sources& s, proto::SamplingParams& out) {
  out.set_repetition_penalty(value_or(s(&Options::repetition_penalty), 1.0));
  out.set_encoder_repetition_penalty(value_or(s(&Options::encoder_repetition_penalty), 1.0));
  out.set_presence_penalty(value_or(s(&Options::presence_penalty), 0.0));
  out.set_frequency_penalty(value_or(s(&Options::frequency_penalty), 0.0));
  out.set_no_repeat_ngram_size(
      static_cast<int32_t>(value_or<int64_t>(s(&Options::no_repeat_ngram_size), 0)));
  out.set_encoder_no_repeat_ngram_size(
      static_cast<int32_t>(value_or<int64_t>(s(&Options::encoder_no_repeat_ngram_size), 0)));
  out.set_renormalize_logits(value_or(s(&Options::renormalize_logits), false));
  out.set_remove_invalid_values(value_or(s(&Options::remove_invalid_values), false));
  if (const auto& decay = s(&Options::exponential_decay_length_penalty)) {
    const int64_t start = (*decay).first + s.prompt_len() - s.counted_as_new();
    auto* message = out.mutable_exponential_decay_length_penalty();
    message->set_start_length(
        static_cast<int32_t>(std::min<int64_t>(start, std::numeric_limits<int32_t>::max())));
    message->set_factor((*decay).second);
  }
}

void set_output(const Sources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  if (r.stop && r.stop_strings) throw conflict("stop", "cannot be combined with stop_strings");
  const auto& strings = s(&Options::stop_strings);
  if (r.stop) {
    for (const std::string& text : *r.stop) out.add_stop(text);
  } else if (strings) {
    for (const std::string& text : *strings) out.add_stop(text);
  }
  // HuggingFace leaves the string that stopped it in the text, vLLM does not.
  out.set_include_stop_str_in_output(value_or(r.include_stop_str_in_output, !r.stop && strings));
  if (const auto& ids = r.stop_token_ids)
    out.mutable_stop_token_ids()->Assign((*ids).begin(), (*ids).end());
  out.set_ignore_eos(value_or(r.ignore_eos, false));
  out.set_skip_special_tokens(value_or(r.skip_special_tokens, true));
  if (r.logprobs) out.set_logprobs(static_cast<int32_t>(*r.logprobs));
  if (r.prompt_logprobs) out.set_prompt_logprobs(static_cast<int32_t>(*r.prompt_logprobs));
  if (r.cache_salt) out.set_cache_salt(*r.cache_salt);
}

// What acts on tokens as they are sampled: beams are known at the end only.
void check_beams(const Sources& s, const proto::SamplingParams& out) {
  if (out.num_beams() == 1) return;
  const auto refuse = [&](const std::string& name) {
    throw not_supported(name, "cannot be combined with beam search (num_beams " +
                                  std::to_string(out.num_beams()) +
                                  (s.request.num_beams.given ? "" : " by the model's defaults") +
                                  "); set num_beams to 1");
  };
  if (out.stop_size() > 0) refuse(s.request.stop ? "stop" : "stop_strings");
  if (out.stop_token_ids_size() > 0) refuse("stop_token_ids");
  if (out.logprobs() > 0)
    throw not_supported("logprobs", "with beam search (num_beams " +
                                        std::to_string(out.num_beams()) +
                                        ") only the tokens' own are known: ask for 0, not " +
                                        std::to_string(out.logprobs()));
}

// The request's id (null: none), else the model's, else the one of config.json.
int id_of(const Option<int64_t>& request, const Option<int64_t>& model, int config) {
  if (request.given) return request ? static_cast<int>(*request) : -1;
  return model ? static_cast<int>(*model) : config;
}

}  // namespace

ParamsResolver::ParamsResolver(const ModelConfig& config, int vocab_size)
    : config_(config),
      limits_(limits_of(config)),
      vocab_size_(vocab_size),
      defaults_(read_default_options(config.generation, vocab_size)) {}

PromptParams ParamsResolver::prompt_params(const json& params) const {
  const Options request = read_request_options(params, vocab_size_);
  PromptParams out;
  out.allow_empty_prompt = value_or(request.allow_empty_prompt, false);
  if (request.truncate_prompt_tokens) {
    int64_t keep = *request.truncate_prompt_tokens;
    if (keep < 0) keep = encoder_positions() > 0 ? encoder_positions() : kUnlimited;
    out.truncate_prompt_tokens =
        static_cast<int>(std::min<int64_t>(keep, std::numeric_limits<int>::max()));
  }
  out.add_special_tokens = value_or(request.add_special_tokens, true);
  if (request.bad_words) out.bad_words = *request.bad_words;
  return out;
}

proto::SamplingParams ParamsResolver::resolve(const json& params,
                                              const PromptLengths& lengths) const {
  const Options request = read_request_options(params, vocab_size_);
  check_built(request, defaults_);
  const Sources sources{request, defaults_, lengths, decoder_positions()};
  proto::SamplingParams out;
  set_lengths(sources, out);
  set_sampling(sources, out);
  set_sequences(sources, out);
  set_penalties(sources, out);
  set_tokens(sources, config_, out);
  set_output(sources, out);
  check_beams(sources, out);
  return out;
}

int ParamsResolver::default_bos(const json& params) const {
  const Options request = read_request_options(params, vocab_size_);
  const int forced = id_of(request.forced_bos_token_id, defaults_.forced_bos_token_id, -1);
  if (forced >= 0) return forced;
  return id_of(request.bos_token_id, defaults_.bos_token_id, config_.bos_token_id);
}

int ParamsResolver::decoder_start(const json& params) const {
  const Options request = read_request_options(params, vocab_size_);
  const int start = id_of(request.decoder_start_token_id, defaults_.decoder_start_token_id,
                          config_.decoder_start_token_id);
  if (start >= 0) return start;
  return id_of(request.bos_token_id, defaults_.bos_token_id, config_.bos_token_id);
}

}  // namespace tandem
