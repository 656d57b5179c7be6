// The table of parameter names (params_schema.h), and the reading of JSON by it.
#include "runtime/request/params_schema.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/json_fields.h"
#include "runtime/request/params_not_built.h"
#include "runtime/request/params_values.h"

namespace tandem {

using nlohmann::json;

namespace {

using Options = GenerationOptions;
using Source = ParamSource;

// Whose name it is. Only HuggingFace's are read from a generation_config.json.
enum class Origin { kHuggingFace, kVllm, kBoth };

struct Row {
  Origin origin;
  std::function<void(const json&, const Source&, Options&)> read;
};

// A row whose values `reader(json, source)` reads; null leaves the option given, without a value.
template <class T, class Reader>
Row row(Origin origin, Option<T> Options::*field, Reader reader) {
  return {origin, [field, reader](const json& value, const Source& source, Options& out) {
            Option<T>& option = out.*field;
            option.given = true;
            option.value.reset();
            if (!value.is_null()) option.value = reader(value, source);
          }};
}

Row integer(Origin origin, Option<int64_t> Options::*field, int64_t lo, int64_t hi) {
  return row(origin, field,
             [lo, hi](const json& v, const Source& s) { return read_int(v, s.name, lo, hi); });
}

Row number(Origin origin, Option<double> Options::*field, Range range) {
  return row(origin, field,
             [range](const json& v, const Source& s) { return read_number(v, s.name, range); });
}

Row boolean(Origin origin, Option<bool> Options::*field) {
  return row(origin, field, [](const json& v, const Source& s) { return read_bool(v, s.name); });
}

Row token(Origin origin, Option<int64_t> Options::*field) {
  return row(origin, field, [](const json& v, const Source& s) {
    return read_int(v, s.name, 0, s.vocab_size - 1);
  });
}

// Checkpoints have ids here that the model cannot produce; those of requests are checked.
Row descriptive_token(Option<int64_t> Options::*field) {
  const Row strict = token(Origin::kHuggingFace, field);
  return {strict.origin, [strict](const json& value, const Source& source, Options& out) {
            const bool usable = value.is_number_integer() && value.get<double>() >= 0 &&
                                value.get<double>() < source.vocab_size;
            if (usable || !source.is_default) strict.read(value, source, out);
          }};
}

Row tokens(Origin origin, Option<Ids> Options::*field) {
  return row(origin, field, read_compared_ids);
}

// vLLM's number of alternatives. OpenAI's booleans: true is 0 (the token's own), false is none.
Row logprobs(Option<int64_t> Options::*field) {
  return {Origin::kVllm, [field](const json& value, const Source& source, Options& out) {
            Option<int64_t>& option = out.*field;
            option.given = true;
            option.value.reset();
            if (value.is_null() || value == false) return;
            option.value = value == true ? 0 : read_int(value, source.name, 0, kMaxLogprobs);
          }};
}

using Table = std::map<std::string, Row, std::less<>>;

void add_lengths(Table& t) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm;
  t["max_length"] = integer(hf, &Options::max_length, 1, kAny);
  t["max_new_tokens"] = integer(hf, &Options::max_new_tokens, 1, kAny);
  t["max_tokens"] = integer(vllm, &Options::max_tokens, 1, kAny);
  t["min_length"] = integer(hf, &Options::min_length, 0, kAny);
  t["min_new_tokens"] = integer(hf, &Options::min_new_tokens, 0, kAny);
  t["min_tokens"] = integer(vllm, &Options::min_tokens, 0, kAny);
  t["truncate_prompt_tokens"] =
      row(vllm, &Options::truncate_prompt_tokens, [](const json& v, const Source& s) {
        const int64_t keep = read_int(v, s.name, -1, kAny);
        if (keep == 0)
          throw invalid_request(s.name, "must be >= 1, or -1 for all that the model takes, not 0");
        return keep;
      });
  t["allow_empty_prompt"] = boolean(vllm, &Options::allow_empty_prompt);
}

void add_prompts(Table& t) {
  t["add_special_tokens"] = boolean(Origin::kVllm, &Options::add_special_tokens);
  t["cache_salt"] = row(Origin::kVllm, &Options::cache_salt, read_salt);
}

void add_sampling(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm, both = Origin::kBoth;
  t["do_sample"] = boolean(hf, &Options::do_sample);
  t["n"] = integer(vllm, &Options::n, 1, kMaxSequences);
  t["best_of"] = integer(vllm, &Options::best_of, 1, kMaxSequences);
  t["num_return_sequences"] = integer(hf, &Options::num_return_sequences, 1, kMaxSequences);
  t["num_beams"] = integer(hf, &Options::num_beams, 1, kMaxSequences);
  t["length_penalty"] = number(hf, &Options::length_penalty, {.lo = -1e3, .hi = 1e3});
  t["early_stopping"] = row(hf, &Options::early_stopping, read_early_stopping);
  t["temperature"] = number(both, &Options::temperature, {.lo = 0, .hi = 1e6});
  t["top_k"] = integer(both, &Options::top_k, -1, std::numeric_limits<int32_t>::max());
  t["top_p"] = number(both, &Options::top_p, {.lo = 0, .hi = 1});
  t["min_p"] = number(both, &Options::min_p, {.lo = 0, .hi = 1});
  t["typical_p"] = number(hf, &Options::typical_p, {.lo = 0, .hi = 1, .open_lo = true});
  t["epsilon_cutoff"] = number(hf, &Options::epsilon_cutoff, {.lo = 0, .hi = 1, .open_hi = true});
  t["eta_cutoff"] = number(hf, &Options::eta_cutoff, {.lo = 0, .hi = 1, .open_hi = true});
  t["top_h"] = number(hf, &Options::top_h, {.lo = 0, .hi = 1, .open_lo = true});
  t["seed"] = row(vllm, &Options::seed, read_seed);
}

void add_processors(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm, both = Origin::kBoth;
  constexpr int64_t kMaxNgram = std::numeric_limits<int32_t>::max();
  t["repetition_penalty"] =
      number(both, &Options::repetition_penalty, {.lo = 0, .hi = 1e6, .open_lo = true});
  t["encoder_repetition_penalty"] =
      number(hf, &Options::encoder_repetition_penalty, {.lo = 0, .hi = 1e6, .open_lo = true});
  t["presence_penalty"] = number(vllm, &Options::presence_penalty, {.lo = -2, .hi = 2});
  t["frequency_penalty"] = number(vllm, &Options::frequency_penalty, {.lo = -2, .hi = 2});
  t["no_repeat_ngram_size"] = integer(hf, &Options::no_repeat_ngram_size, 0, kMaxNgram);
  t["encoder_no_repeat_ngram_size"] =
      integer(hf, &Options::encoder_no_repeat_ngram_size, 0, kMaxNgram);
  t["bad_words_ids"] = row(hf, &Options::bad_words_ids, read_id_lists);
  t["bad_words"] = row(vllm, &Options::bad_words, read_bad_words);
  t["allowed_token_ids"] = row(vllm, &Options::allowed_token_ids, read_allowed_ids);
  t["suppress_tokens"] = tokens(hf, &Options::suppress_tokens);
  t["begin_suppress_tokens"] = tokens(hf, &Options::begin_suppress_tokens);
  t["forced_bos_token_id"] = token(hf, &Options::forced_bos_token_id);
  t["forced_eos_token_id"] = tokens(hf, &Options::forced_eos_token_id);
  t["eos_token_id"] = tokens(hf, &Options::eos_token_id);
  t["bos_token_id"] = descriptive_token(&Options::bos_token_id);
  t["decoder_start_token_id"] = token(hf, &Options::decoder_start_token_id);
  t["pad_token_id"] = descriptive_token(&Options::pad_token_id);
  t["renormalize_logits"] = boolean(hf, &Options::renormalize_logits);
  t["remove_invalid_values"] = boolean(hf, &Options::remove_invalid_values);
  t["logit_bias"] = row(vllm, &Options::logit_bias, read_logit_bias);
  t["sequence_bias"] = row(hf, &Options::sequence_bias, read_sequence_bias);
  t["exponential_decay_length_penalty"] =
      row(hf, &Options::exponential_decay_length_penalty, read_decay);
}

void add_output(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm;
  t["stop"] = row(vllm, &Options::stop, read_stop_strings);
  t["stop_strings"] = row(hf, &Options::stop_strings, read_stop_strings);
  t["stop_token_ids"] = tokens(vllm, &Options::stop_token_ids);
  t["ignore_eos"] = boolean(vllm, &Options::ignore_eos);
  t["include_stop_str_in_output"] = boolean(vllm, &Options::include_stop_str_in_output);
  t["skip_special_tokens"] = boolean(vllm, &Options::skip_special_tokens);
  t["logprobs"] = logprobs(&Options::logprobs);
  t["prompt_logprobs"] = logprobs(&Options::prompt_logprobs);
}

const Table& table() {
  static const Table rows = [] {
    Table t;
    add_lengths(t);
    add_prompts(t);
    add_sampling(t);
    add_processors(t);
    add_output(t);
    return t;
  }();
  return rows;
}

}  // namespace

GenerationOptions read_request_options(const json& params, int vocab_size) {
  GenerationOptions out;
  if (params.is_null()) return out;
  if (!params.is_object())
    throw invalid_request("params", "must be an object, not " + describe(params));
  for (const auto& [name, value] : params.items()) {
    if (const auto it = table().find(name); it != table().end()) {
      it->second.read(value, {name, vocab_size, false}, out);
    } else if (!read_not_built(name, value, out) && !is_without_effect(name)) {
      const std::string shown = describe(json(name));
      throw InputError(ErrorKind::kInvalidRequest,
                       "unknown parameter " + shown + suggestion(name, parameter_names()), name);
    }
  }
  return out;
}

GenerationOptions read_default_options(const json& generation, int vocab_size) {
  GenerationOptions out;
  if (!generation.is_object()) return out;
  for (const auto& [name, value] : generation.items()) {
    const auto it = table().find(name);
    try {
      if (it != table().end() && it->second.origin != Origin::kVllm)
        it->second.read(value, {name, vocab_size, true}, out);
    } catch (const InputError& error) {
      throw invalid_model("generation_config.json", error.what());
    }
    // What HuggingFace would return besides the tokens is the business of requests.
    if (!name.starts_with("output_")) read_not_built(name, value, out);
  }
  return out;
}

std::vector<std::string> parameter_names() {
  std::vector<std::string> names = names_not_built();
  for (const auto& [name, row] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tandem
