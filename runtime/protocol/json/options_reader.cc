// The table of parameter names (options_reader.h), and the reading of JSON by it. A parameter's
// field of GenerationOptions has its name.
#include "runtime/protocol/json/options_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "runtime/protocol/json/constraint_reader.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/option_kinds.h"
#include "runtime/protocol/json/option_values.h"

namespace tandem {

using nlohmann::json;

namespace {

using Options = proto::GenerationOptions;
using Source = OptionSource;
using option_kinds::boolean;
using option_kinds::descriptive_token;
using option_kinds::early_stopping;
using option_kinds::Field;
using option_kinds::integer;
using option_kinds::kAny;
using option_kinds::Kind;
using option_kinds::logprobs;
using option_kinds::message;
using option_kinds::number;
using option_kinds::one_of;
using option_kinds::salt;
using option_kinds::seed;
using option_kinds::short_name;
using option_kinds::token;
using option_kinds::truncation;

// Whose name it is, vLLM's or this server's own. Only HuggingFace's are read from a
// generation_config.json.
enum class Origin { kHuggingFace, kVllm, kBoth };

struct Row {
  Origin origin;
  const Field* field;
  Kind kind;
};

struct Table {
  std::map<std::string, Row, std::less<>> rows;

  void add(const char* name, Origin origin, Kind kind) { add(name, origin, name, std::move(kind)); }
  void add(const char* name, Origin origin, const char* field_name, Kind kind) {
    const Field* field = Options::descriptor()->FindFieldByName(field_name);
    TANDEM_CHECK(field != nullptr);
    rows[name] = {origin, field, std::move(kind)};
  }
};

void add_lengths(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm;
  t.add("max_length", hf, integer(1, kAny));
  t.add("max_new_tokens", hf, integer(1, kAny));
  t.add("max_tokens", vllm, integer(1, kAny));
  t.add("min_length", hf, integer(0, kAny));
  t.add("min_new_tokens", hf, integer(0, kAny));
  t.add("min_tokens", vllm, integer(0, kAny));
  t.add("max_time", hf, number({.lo = 0, .hi = 1e9}));
  t.add("truncate_prompt_tokens", vllm, truncation());
  t.add("allow_empty_prompt", vllm, boolean());
}

void add_prompts(Table& t) {
  t.add("add_special_tokens", Origin::kVllm, boolean());
  t.add("cache_salt", Origin::kVllm, salt());
  t.add("global_attention", Origin::kVllm, message(read_position_option, check_positions));
}

// Other spellings, and the fields that they are of.
constexpr std::array<std::pair<const char*, const char*>, 2> kSpellings = {
    {{"source_lang", "src_lang"}, {"target_lang", "tgt_lang"}}};

void add_languages(Table& t) {
  for (const auto& [spelling, field] : kSpellings) {
    t.add(field, Origin::kVllm, short_name(spelling));
    t.add(spelling, Origin::kVllm, field, short_name(field));
  }
  t.add("task", Origin::kVllm, short_name());
}

void add_documents(Table& t) {
  t.add("split", Origin::kVllm, one_of({"auto", "sentences", "paragraphs", "none"}));
  t.add("merge", Origin::kVllm, one_of({"join", "summary"}));
}

void add_sampling(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm, both = Origin::kBoth;
  t.add("do_sample", hf, boolean());
  t.add("n", vllm, integer(1, kMaxSequences));
  t.add("best_of", vllm, integer(1, kMaxSequences));
  t.add("num_return_sequences", hf, integer(1, kMaxSequences));
  t.add("num_beams", hf, integer(1, kMaxSequences));
  t.add("length_penalty", hf, number({.lo = -1e3, .hi = 1e3}));
  t.add("early_stopping", hf, early_stopping());
  t.add("temperature", both, number({.lo = 0, .hi = 1e6}));
  t.add("top_k", both, integer(-1, std::numeric_limits<int32_t>::max()));
  t.add("top_p", both, number({.lo = 0, .hi = 1}));
  t.add("min_p", both, number({.lo = 0, .hi = 1}));
  t.add("typical_p", hf, number({.lo = 0, .hi = 1, .open_lo = true}));
  t.add("epsilon_cutoff", hf, number({.lo = 0, .hi = 1, .open_hi = true}));
  t.add("eta_cutoff", hf, number({.lo = 0, .hi = 1, .open_hi = true}));
  t.add("top_h", hf, number({.lo = 0, .hi = 1, .open_lo = true}));
  t.add("seed", vllm, seed());
}

void add_processors(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm, both = Origin::kBoth;
  constexpr int64_t kMaxNgram = std::numeric_limits<int32_t>::max();
  t.add("repetition_penalty", both, number({.lo = 0, .hi = 1e6, .open_lo = true}));
  t.add("encoder_repetition_penalty", hf, number({.lo = 0, .hi = 1e6, .open_lo = true}));
  t.add("presence_penalty", vllm, number({.lo = -2, .hi = 2}));
  t.add("frequency_penalty", vllm, number({.lo = -2, .hi = 2}));
  t.add("no_repeat_ngram_size", hf, integer(0, kMaxNgram));
  t.add("encoder_no_repeat_ngram_size", hf, integer(0, kMaxNgram));
  t.add("bad_words_ids", hf, message(read_id_lists, check_id_lists));
  t.add("bad_words", vllm, message(read_bad_words, check_bad_words));
  t.add("allowed_token_ids", vllm, message(read_ids, check_allowed_ids));
  t.add("suppress_tokens", hf, message(read_compared_ids));
  t.add("begin_suppress_tokens", hf, message(read_compared_ids));
  t.add("forced_bos_token_id", hf, token());
  t.add("forced_eos_token_id", hf, message(read_compared_ids));
  t.add("eos_token_id", hf, message(read_compared_ids));
  t.add("bos_token_id", hf, descriptive_token());
  t.add("decoder_start_token_id", hf, token());
  t.add("pad_token_id", hf, descriptive_token());
  t.add("renormalize_logits", hf, boolean());
  t.add("remove_invalid_values", hf, boolean());
  t.add("logit_bias", vllm, message(read_logit_bias, check_logit_bias));
  t.add("sequence_bias", hf, message(read_sequence_bias, check_sequence_bias));
  t.add("exponential_decay_length_penalty", hf, message(read_decay, check_decay));
}

// All of them say what the text has to be; a request has one.
void add_constraints(Table& t) {
  for (const char* name : {"guided_regex", "guided_choice", "guided_json", "guided_grammar",
                           "response_format", "structured_outputs", "guided_decoding"})
    t.add(name, Origin::kVllm, "constraint", option_kinds::constraint());
}

void add_output(Table& t) {
  const auto hf = Origin::kHuggingFace, vllm = Origin::kVllm;
  t.add("stop", vllm, message(read_texts, check_stop_strings));
  t.add("stop_strings", hf, message(read_texts, check_stop_strings));
  t.add("stop_token_ids", vllm, message(read_compared_ids));
  t.add("ignore_eos", vllm, boolean());
  t.add("include_stop_str_in_output", vllm, boolean());
  t.add("skip_special_tokens", vllm, boolean());
  // (A model's default is a matter of whoever transcribes: runtime/media/sound/speech_settings.h.)
  t.add("return_timestamps", vllm, boolean());
  t.add("logprobs", vllm, logprobs());
  t.add("prompt_logprobs", vllm, logprobs());
}

const Table& table() {
  static const Table all = [] {
    Table t;
    add_lengths(t);
    add_prompts(t);
    add_languages(t);
    add_documents(t);
    add_sampling(t);
    add_processors(t);
    add_constraints(t);
    add_output(t);
    return t;
  }();
  return all;
}

void read_row(const Row& row, const json& value, const Source& source, Options& out) {
  if (value.is_null()) {
    out.add_off(source.name);
    return;
  }
  row.kind.read(value, source, row.field, out);
  const bool given = Options::GetReflection()->HasField(out, row.field);
  if (given && row.kind.check) row.kind.check(out, row.field, source.name);
}

// False: it is no such name.
bool read_unbuilt(const std::string& name, const json& value, Options& out,
                  UnbuiltOptions& asked_for) {
  const Unbuilt state = unbuilt_state(name, value);
  if (state == Unbuilt::kOff) out.add_off(name);
  if (state == Unbuilt::kAskedFor) asked_for[name] = describe(value);
  return state != Unbuilt::kUnknownName;
}

}  // namespace

Options read_options(const json& params) {
  Options out;
  if (params.is_null()) return out;
  if (!params.is_object())
    throw invalid_request("params", "must be an object, not " + describe(params));
  UnbuiltOptions asked_for;
  for (const auto& [name, value] : params.items()) {
    if (const auto it = table().rows.find(name); it != table().rows.end()) {
      read_row(it->second, value, {name, std::numeric_limits<int32_t>::max(), false}, out);
    } else if (is_without_effect(name)) {
      if (!value.is_null()) out.add_without_effect(name);
    } else if (!read_unbuilt(name, value, out, asked_for)) {
      const std::string shown = describe(json(name));
      throw InputError(ErrorKind::kInvalidRequest,
                       "unknown parameter " + shown + suggestion(name, option_names()), name);
    }
  }
  if (!asked_for.empty()) {
    const auto& [name, value] = *asked_for.begin();
    throw not_built(name, value, /*by_model=*/false);
  }
  return out;
}

void update_params(json& params, const json& over) {
  for (const auto& [spelling, field] : kSpellings)
    if (over.contains(spelling) || over.contains(field)) {
      params.erase(spelling);
      params.erase(field);
    }
  params.update(over);
}

void check_options(const Options& options) {
  std::vector<const Field*> given;
  Options::GetReflection()->ListFields(options, &given);
  if (options.has_constraint())
    check_constraint(options.constraint(), options.constraint().field());
  for (const Field* field : given) {
    const auto it = table().rows.find(field->name());
    if (it != table().rows.end() && it->second.kind.check)
      it->second.kind.check(options, field, it->first);
  }
}

void override_options(const Options& over, Options& options) {
  const auto* reflection = Options::GetReflection();
  for (const std::string& name : over.off())
    if (const Field* field = Options::descriptor()->FindFieldByName(name))
      reflection->ClearField(&options, field);
  std::vector<const Field*> given;
  reflection->ListFields(over, &given);
  std::set<std::string> names;
  for (const Field* field : given) {
    names.insert(field->name());
    if (!field->is_repeated()) reflection->ClearField(&options, field);
  }
  // What it gives is no longer off, nor twice.
  names.insert(over.off().begin(), over.off().end());
  auto& off = *options.mutable_off();
  off.erase(std::remove_if(off.begin(), off.end(),
                           [&](const std::string& name) { return names.contains(name); }),
            off.end());
  options.MergeFrom(over);
}

ModelOptions read_model_options(const json& generation, int vocab_size, const std::string& source) {
  ModelOptions out;
  if (!generation.is_object()) return out;
  for (const auto& [name, value] : generation.items()) {
    const auto it = table().rows.find(name);
    try {
      if (it != table().rows.end() && it->second.origin != Origin::kVllm)
        read_row(it->second, value, {name, vocab_size, true}, out.options);
    } catch (const InputError& error) {
      throw invalid_model(source, error.what());
    }
    // What HuggingFace would return besides the tokens is the business of requests.
    if (!name.starts_with("output_")) read_unbuilt(name, value, out.options, out.not_built);
  }
  return out;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names = unbuilt_names();
  for (const auto& [name, row] : table().rows) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tandem
