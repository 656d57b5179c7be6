// The names that a request's `params` and a generation_config.json may carry, one table row each:
// how its value is read and where it goes. Meaning (defaults, counting, conflicts) is params.cc's.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

// Absent, null (the option is off), or a value.
template <class T>
struct Option {
  bool given = false;
  std::optional<T> value;

  bool is_null() const { return given && !value; }
  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
};

using Ids = std::vector<int32_t>;

enum class StopEarly { kFalse, kTrue, kNever };

// Fields carry the names of the parameters.
struct GenerationOptions {
  Option<int64_t> max_length, max_new_tokens, max_tokens;
  Option<int64_t> min_length, min_new_tokens, min_tokens;
  Option<int64_t> n, best_of, num_return_sequences, num_beams;
  Option<bool> do_sample;
  Option<double> temperature, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff, top_h;
  Option<int64_t> top_k;
  Option<int64_t> seed;  // the 64 bits, two's complement
  Option<double> repetition_penalty, encoder_repetition_penalty;
  Option<double> presence_penalty, frequency_penalty, length_penalty;
  Option<int64_t> no_repeat_ngram_size, encoder_no_repeat_ngram_size;
  Option<std::vector<Ids>> bad_words_ids;
  Option<std::vector<std::string>> bad_words;
  Option<Ids> allowed_token_ids;  // ascending
  Option<Ids> suppress_tokens, begin_suppress_tokens, forced_eos_token_id, eos_token_id;
  Option<Ids> stop_token_ids;
  Option<int64_t> forced_bos_token_id, bos_token_id, decoder_start_token_id, pad_token_id;
  Option<std::vector<std::string>> stop, stop_strings;
  Option<bool> ignore_eos, include_stop_str_in_output, skip_special_tokens;
  Option<bool> renormalize_logits, remove_invalid_values;
  Option<int64_t> logprobs, prompt_logprobs, truncate_prompt_tokens;
  Option<bool> add_special_tokens, allow_empty_prompt;
  Option<std::string> cache_salt;
  Option<std::map<int32_t, float>> logit_bias;
  Option<std::vector<std::pair<Ids, float>>> sequence_bias;
  Option<std::pair<int64_t, double>> exponential_decay_length_penalty;
  Option<StopEarly> early_stopping;

  // Names that exist elsewhere, but are not built yet, with a value that would change the output.
  std::map<std::string, std::string> not_built;  // name → the value, for the message
  // Names of the same kind with a value that switches them off.
  std::vector<std::string> switched_off;
};

// A request's parameters. Throws InputError naming the parameter; an unknown name gets the nearest
// known one. `params` null: none.
GenerationOptions read_request_options(const nlohmann::json& params, int vocab_size);

// The HuggingFace names in `generation` (ModelConfig::generation); others are ignored. Ids outside
// the vocabulary are dropped where HuggingFace ignores them. Errors are of the kind kInvalidModel.
GenerationOptions read_default_options(const nlohmann::json& generation, int vocab_size);

// All names that are understood, those not built included; sorted.
std::vector<std::string> parameter_names();

// n and the lists have bounds, so that no request allocates without one.
inline constexpr int64_t kMaxSequences = 10000;
inline constexpr int64_t kMaxLogprobs = 100;
inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopStringBytes = 1024;
inline constexpr size_t kMaxBadWords = 1024;  // as texts
inline constexpr size_t kMaxBadWordBytes = 1024;
inline constexpr size_t kMaxIdLists = 65536;  // bad_words_ids, sequence_bias
inline constexpr size_t kMaxIdsInList = 1024;
inline constexpr size_t kMaxSaltBytes = 1024;

}  // namespace tandem
