// Resolution of a request's parameters: request over model over HuggingFace's defaults; conflicts
// become errors.
//
// Of requests that generate nothing: those that pool the encoder's output, and those that score a
// target. A target's tokens but the last are a decoder prompt with prompt_logprobs; the last one is
// forced, as an end token at the length's limit is, and its log-probability is that of the logits
// before. So nothing is generated in vain, and a target may fill the decoder to its last position.
#include "runtime/request/params/params_resolver.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/config/task_params.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/pooling_kind.h"
#include "runtime/request/params/length_rules.h"
#include "runtime/request/params/token_rules.h"

namespace tandem {

namespace {

using Options = proto::GenerationOptions;
constexpr int64_t kHuggingFaceTopK = 50;

// All that means something where nothing is chosen.
constexpr std::array kOfScoring = {"logprobs",           "truncate_prompt_tokens",
                                   "allow_empty_prompt", "add_special_tokens",
                                   "cache_salt",         "decoder_start_token_id",
                                   "bos_token_id",       "eos_token_id",
                                   "pad_token_id",       "src_lang",
                                   "tgt_lang",           "task",
                                   "global_attention"};
constexpr std::array kOfPooling = {"truncate_prompt_tokens",
                                   "allow_empty_prompt",
                                   "add_special_tokens",
                                   "cache_salt",
                                   "src_lang",
                                   "tgt_lang",
                                   "task",
                                   "global_attention"};

// do_sample decides where the request has it; else a request that sets a sampling parameter asks
// for sampling, except temperature 0; else the model decides.
bool samples(const OptionSources& s) {
  const Options& r = s.request;
  if (r.has_do_sample() || is_off(r, "do_sample")) return r.do_sample();
  if (r.has_temperature() && r.temperature() == 0) return false;
  if (r.has_temperature() || r.has_top_k() || r.has_top_p() || r.has_min_p() || r.has_typical_p() ||
      r.has_epsilon_cutoff() || r.has_eta_cutoff() || r.has_top_h())
    return true;
  return s.model.do_sample();
}

// HuggingFace's, unless somebody switched it off.
int64_t top_k(const OptionSources& s) {
  if (s.both.has_top_k()) return std::max<int64_t>(s.both.top_k(), 0);
  return is_off(s.request, "top_k") || is_off(s.model, "top_k") ? 0 : kHuggingFaceTopK;
}

void set_sampling(const OptionSources& s, proto::SamplingParams& out) {
  const Options &r = s.request, &both = s.both;
  out.set_do_sample(samples(s));
  const double temperature = both.has_temperature() ? both.temperature() : 1.0;
  // Below that, dividing by it overflows.
  if (out.do_sample() && temperature < 1e-6)
    throw invalid_request("temperature",
                          "must be > 1e-6 for sampling; for greedy decoding set "
                          "do_sample to false, or temperature to 0 without do_sample");
  out.set_temperature(temperature);
  out.set_top_k(static_cast<int32_t>(top_k(s)));
  out.set_top_p(both.has_top_p() ? both.top_p() : 1.0);
  out.set_min_p(both.min_p());
  out.set_typical_p(both.has_typical_p() ? both.typical_p() : 1.0);
  out.set_epsilon_cutoff(both.epsilon_cutoff());
  out.set_eta_cutoff(both.eta_cutoff());
  out.set_top_h(both.top_h());
  if (r.has_seed() && r.seed() != -1) out.set_seed(static_cast<uint64_t>(r.seed()));
}

// For messages: who wants beams, where it is not the request.
const char* whose_beams(const OptionSources& s) {
  const bool given = s.request.has_num_beams() || is_off(s.request, "num_beams");
  return given ? "" : " by the model's defaults";
}

// vLLM v0's: the n best of so many samples.
void set_best_of(const OptionSources& s, int64_t beams, proto::SamplingParams& out) {
  const int64_t best_of = s.request.has_best_of() ? s.request.best_of() : out.n();
  if (best_of < out.n())
    throw conflict("best_of", std::to_string(best_of) + " is less than the " +
                                  std::to_string(out.n()) + " sequences to return (n)");
  if (best_of > out.n() && beams > 1)
    throw conflict("best_of", "cannot be combined with beam search (num_beams " +
                                  std::to_string(beams) + whose_beams(s) +
                                  "), which returns its n best anyway; set num_beams to 1");
  if (best_of > 1 && beams == 1 && !out.do_sample())
    throw conflict("best_of", std::to_string(best_of) +
                                  " sequences of greedy decoding would all be the same; set "
                                  "do_sample to true, or a temperature > 0");
  if (best_of > out.n()) out.set_best_of(static_cast<int32_t>(best_of));
}

void set_sequences(const OptionSources& s, proto::SamplingParams& out) {
  const Options &r = s.request, &both = s.both;
  if (r.has_n() && r.has_num_return_sequences() && r.n() != r.num_return_sequences())
    throw conflict("n", std::to_string(r.n()) + " and num_return_sequences " +
                            std::to_string(r.num_return_sequences()) + " contradict each other");
  const int64_t beams = both.has_num_beams() ? both.num_beams() : 1;
  const bool by_n = r.has_n();
  const int64_t n = by_n                              ? r.n()
                    : both.has_num_return_sequences() ? both.num_return_sequences()
                                                      : 1;
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
  out.set_length_penalty(both.has_length_penalty() ? both.length_penalty() : 1.0);
  out.set_early_stopping(both.early_stopping());
}

void set_penalties(const OptionSources& s, proto::SamplingParams& out) {
  const Options& both = s.both;
  out.set_repetition_penalty(both.has_repetition_penalty() ? both.repetition_penalty() : 1.0);
  out.set_encoder_repetition_penalty(
      both.has_encoder_repetition_penalty() ? both.encoder_repetition_penalty() : 1.0);
  out.set_presence_penalty(both.presence_penalty());
  out.set_frequency_penalty(both.frequency_penalty());
  out.set_no_repeat_ngram_size(static_cast<int32_t>(both.no_repeat_ngram_size()));
  out.set_encoder_no_repeat_ngram_size(static_cast<int32_t>(both.encoder_no_repeat_ngram_size()));
  out.set_renormalize_logits(both.renormalize_logits());
  out.set_remove_invalid_values(both.remove_invalid_values());
  if (both.has_exponential_decay_length_penalty()) {
    const proto::ExponentialDecay& decay = both.exponential_decay_length_penalty();
    const int64_t start = decay.start_length() + s.prompt_len() - s.counted_as_new();
    auto* message = out.mutable_exponential_decay_length_penalty();
    message->set_start_length(
        static_cast<int32_t>(std::min<int64_t>(start, std::numeric_limits<int32_t>::max())));
    message->set_factor(decay.factor());
  }
}

void set_output(const OptionSources& s, proto::SamplingParams& out) {
  const Options& r = s.request;
  if (r.has_stop() && r.has_stop_strings())
    throw conflict("stop", "cannot be combined with stop_strings");
  *out.mutable_stop() = r.has_stop() ? r.stop().texts() : s.both.stop_strings().texts();
  out.set_stop_by_tokens(!r.has_stop() && s.both.has_stop_strings());
  // HuggingFace leaves the string that stopped it in the text, vLLM does not.
  out.set_include_stop_str_in_output(
      r.has_include_stop_str_in_output() ? r.include_stop_str_in_output() : out.stop_by_tokens());
  *out.mutable_stop_token_ids() = r.stop_token_ids().ids();
  out.set_ignore_eos(r.ignore_eos());
  out.set_skip_special_tokens(!r.has_skip_special_tokens() || r.skip_special_tokens());
  if (r.has_logprobs()) out.set_logprobs(static_cast<int32_t>(r.logprobs()));
  if (r.has_prompt_logprobs()) out.set_prompt_logprobs(static_cast<int32_t>(r.prompt_logprobs()));
  if (r.has_cache_salt()) out.set_cache_salt(r.cache_salt());
  out.set_processed_logprobs(r.processed_logprobs());
  if (s.both.has_max_time()) out.set_max_time(s.both.max_time());
}

// The request's alone: a model has none.
void set_constraint(const OptionSources& s, proto::SamplingParams& out) {
  if (!s.request.has_constraint()) return;
  *out.mutable_constraint() = s.request.constraint();
  const std::string& name = s.request.constraint().field();
  if (out.has_timestamps()) throw conflict(name, "cannot be combined with return_timestamps");
  if (out.eos_token_id().empty())
    throw conflict(name, "needs an end token (eos_token_id), with which the text ends");
}

// What acts on tokens as they are sampled: beams are known at the end only.
void check_beams(const OptionSources& s, const proto::SamplingParams& out) {
  if (out.num_beams() == 1) return;
  const auto refuse = [&](const std::string& name) {
    throw not_supported(name, "cannot be combined with beam search (num_beams " +
                                  std::to_string(out.num_beams()) + whose_beams(s) +
                                  "); set num_beams to 1");
  };
  if (out.stop_size() > 0) refuse(s.request.has_stop() ? "stop" : "stop_strings");
  if (out.stop_token_ids_size() > 0) refuse("stop_token_ids");
  if (out.logprobs() > 0)
    throw not_supported("logprobs", "with beam search (num_beams " +
                                        std::to_string(out.num_beams()) +
                                        ") only the tokens' own are known: ask for 0, not " +
                                        std::to_string(out.logprobs()));
}

// The first name of an option that means nothing to such a request, in alphabetical order.
template <class Names>
void refuse_others(const Options& request, const Names& known, const char* what) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  Options::GetReflection()->ListFields(request, &fields);
  std::set<std::string> names(request.without_effect().begin(), request.without_effect().end());
  for (const auto* field : fields)
    if (!field->is_repeated()) names.insert(field->name());
  if (names.erase("constraint") > 0) names.insert(request.constraint().field());
  for (const std::string& name : names)
    if (std::count(known.begin(), known.end(), name) == 0)
      throw invalid_request(name, std::string("has no effect on ") + what + "; leave it out");
}

// What the model's defaults ask for, and the request does not switch off.
void check_built(const Options& request, const UnbuiltOptions& model) {
  for (const auto& [name, value] : model)
    if (!is_off(request, name)) throw not_built(name, value, /*by_model=*/true);
}

// Of a parameter that is one token id: the request's (switched off: none), else the model's, else
// the one of config.json; -1 if there is none.
struct TokenOption {
  const char* name;
  bool (Options::*has)() const;
  int64_t (Options::*get)() const;

  // Throws InputError if the request's is outside the vocabulary.
  int of(const Options& request, const Options& model, int config, int vocab_size) const {
    if (is_off(request, name)) return -1;
    if ((request.*has)())
      return static_cast<int>(read_int((request.*get)(), name, 0, vocab_size - 1));
    return (model.*has)() ? static_cast<int>((model.*get)()) : config;
  }
};
constexpr TokenOption kForcedBos{"forced_bos_token_id", &Options::has_forced_bos_token_id,
                                 &Options::forced_bos_token_id};
constexpr TokenOption kBos{"bos_token_id", &Options::has_bos_token_id, &Options::bos_token_id};
constexpr TokenOption kDecoderStart{"decoder_start_token_id", &Options::has_decoder_start_token_id,
                                    &Options::decoder_start_token_id};

}  // namespace

ParamsResolver::ParamsResolver(const ModelConfig& config, int vocab_size)
    : config_(config),
      limits_(limits_of(config)),
      vocab_size_(vocab_size),
      defaults_(read_model_options(config.generation, vocab_size)) {
  read_tasks();
}

// What is wrong with a task matters to those who ask for it.
void ParamsResolver::read_tasks() {
  for (auto& [name, params] : task_params(config_)) {
    Task task{params.prefix, defaults_, {}};
    try {
      ModelOptions own = read_model_options(params.generation, vocab_size_,
                                            "config.json: task_specific_params." + printable(name));
      override_options(own.options, task.defaults.options);
      task.defaults.not_built.merge(own.not_built);
    } catch (const InputError& error) {
      task.error = error.what();
    }
    tasks_.emplace(name, std::move(task));
  }
}

// Null: the request names none.
const ParamsResolver::Task* ParamsResolver::task_of(const Options& request) const {
  if (!request.has_task()) return nullptr;
  if (tasks_.empty())
    throw not_supported("task", "this model has no tasks (task_specific_params of config.json)");
  const auto it = tasks_.find(request.task());
  if (it == tasks_.end()) {
    std::string names;
    for (const auto& [name, task] : tasks_) names += (names.empty() ? "" : ", ") + printable(name);
    throw invalid_request(
        "task", in_quotes(request.task()) + " is not a task of this model, which has " + names);
  }
  if (!it->second.error.empty())
    throw InputError(ErrorKind::kInvalidModel, it->second.error, "task");
  return &it->second;
}

const ModelOptions& ParamsResolver::defaults(const Options& request) const {
  const Task* task = task_of(request);
  return task != nullptr ? task->defaults : defaults_;
}

PromptParams ParamsResolver::prompt_params(const Options& request) const {
  PromptParams out;
  out.allow_empty_prompt = request.allow_empty_prompt();
  if (request.has_truncate_prompt_tokens()) {
    int64_t keep = request.truncate_prompt_tokens();
    if (keep < 0) keep = encoder_positions() > 0 ? encoder_positions() : kUnlimited;
    out.truncate_prompt_tokens =
        static_cast<int>(std::min<int64_t>(keep, std::numeric_limits<int>::max()));
  }
  out.add_special_tokens = !request.has_add_special_tokens() || request.add_special_tokens();
  if (const Task* task = task_of(request)) out.prefix = task->prefix;
  return out;
}

proto::SamplingParams ParamsResolver::resolve(const Options& request,
                                              const PromptLengths& lengths) const {
  check_vocabulary(request, vocab_size_);
  const ModelOptions& model = defaults(request);
  check_built(request, model.not_built);
  Options both = model.options;
  override_options(request, both);
  const OptionSources sources{request, model.options, both, lengths, decoder_positions()};
  proto::SamplingParams out;
  set_lengths(sources, out);
  set_sampling(sources, out);
  set_sequences(sources, out);
  set_penalties(sources, out);
  set_tokens(sources, config_, out);
  set_output(sources, out);
  set_constraint(sources, out);
  check_beams(sources, out);
  return out;
}

proto::SamplingParams ParamsResolver::resolve_scoring(const Options& request,
                                                      const PromptLengths& lengths,
                                                      int32_t last_token) const {
  check_vocabulary(request, vocab_size_);
  refuse_others(request, kOfScoring, "the scores of a target");
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
  const auto top = static_cast<int32_t>(request.logprobs());
  out.set_logprobs(top);
  out.set_prompt_logprobs(top);
  if (request.has_cache_salt()) out.set_cache_salt(request.cache_salt());
  return out;
}

proto::SamplingParams ParamsResolver::resolve_pooling(const Options& request,
                                                      const proto::Pooling& pooling) const {
  refuse_others(request, kOfPooling, "requests that generate nothing");
  proto::SamplingParams out;
  out.set_n(1);
  *out.mutable_pooling() = pooling;
  if (!reads_decoder(pooling)) return out;
  out.set_num_beams(1);
  out.set_max_tokens(1);  // of which none is chosen
  if (request.has_cache_salt()) out.set_cache_salt(request.cache_salt());
  return out;
}

std::vector<int32_t> ParamsResolver::end_tokens(const Options& request) const {
  if (is_off(request, "eos_token_id")) return {};
  for (const Options* options : {&request, &defaults(request).options})
    if (options->has_eos_token_id()) {
      const auto& ids = options->eos_token_id().ids();
      return {ids.begin(), ids.end()};
    }
  std::vector<int32_t> ids;
  for (const int id : config_.eos_token_id)
    if (id >= 0 && id < vocab_size_) ids.push_back(id);
  return ids;
}

int ParamsResolver::default_bos(const Options& request) const {
  const Options& model = defaults(request).options;
  const int forced = kForcedBos.of(request, model, -1, vocab_size_);
  return forced >= 0 ? forced : kBos.of(request, model, config_.bos_token_id, vocab_size_);
}

int ParamsResolver::decoder_start(const Options& request) const {
  const Options& model = defaults(request).options;
  const int start = kDecoderStart.of(request, model, config_.decoder_start_token_id, vocab_size_);
  return start >= 0 ? start : kBos.of(request, model, config_.bos_token_id, vocab_size_);
}

int ParamsResolver::model_forced_bos(const Options& request) const {
  return kForcedBos.of({}, defaults(request).options, -1, vocab_size_);
}

}  // namespace tandem
