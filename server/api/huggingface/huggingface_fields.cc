// Requests of text-generation-inference and of HuggingFace's pipelines → requests to the engine.
#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "base/error.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "server/api/fields/json_body.h"
#include "server/api/huggingface/huggingface.h"
#include "server/api/text_pairs.h"

namespace tandem::server {
namespace {

using nlohmann::json;

// text-generation-inference's, where neither the request nor the model says a length.
constexpr int kDefaultTokens = 100;

constexpr std::pair<std::string_view, std::string_view> kTextKeys[] = {
    {"summarization", "summary_text"},
    {"translation", "translation_text"},
    {"text2text-generation", "generated_text"},
    {"text-generation", "generated_text"}};

constexpr RefusedField kRefusedParameters[] = {
    {"watermark", "[false]", "there are no watermarks"},
    {"grammar", "[]", "output is not constrained"},
    {"adapter_id", "[]", "this server has no adapters"},
    {"logprobs", "[]", "details and top_n_tokens are for it"},
    {"prompt_logprobs", "[]", "decoder_input_details is for it"}};

// transformers' arguments that change nothing here: texts are whole, and batches continuous.
constexpr const char* kParametersWithoutEffect[] = {"clean_up_tokenization_spaces", "padding",
                                                    "return_text", "batch_size", "num_workers"};

bool has_one_of(const json& params, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return params.contains(name); });
}

void take_truncation(json& params, FieldNames& names) {
  if (const auto most = take(params, "truncate")) {
    params["truncate_prompt_tokens"] = *most;
    names.add("truncate_prompt_tokens", "parameters.truncate");
  }
  const auto how = take(params, "truncation");
  if (!how || *how == false || *how == "do_not_truncate") return;
  if (*how != true && *how != "longest_first" && *how != "only_first")
    throw not_supported("truncation",
                        "is longest_first, only_first or do_not_truncate, for a text is all input");
  params.emplace("truncate_prompt_tokens", -1);
  names.add("truncate_prompt_tokens", "parameters.truncation");
}

void take_stop(json& params, FieldNames& names) {
  if (!params.contains("stop")) return;
  if (params["stop"].is_array() && params["stop"].empty()) {
    params.erase("stop");
    return;
  }
  // The text ends with the string that stops it.
  if (params.emplace("include_stop_str_in_output", true).second)
    names.add("include_stop_str_in_output", "parameters.stop");
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 21) ^ device();  // 53 bits, which every reader of JSON keeps
}

// As text-generation-inference: a temperature other than 1, or a filter, samples whatever do_sample
// is; and the answer has the seed.
void set_sampling(json& params, HuggingFaceAnswer& answer) {
  const auto is = [&](const char* name, const json& value) {
    return params.contains(name) && params[name] == value;
  };
  if (is("temperature", 1) && !is("do_sample", true)) params.erase("temperature");
  const bool warps =
      has_one_of(params, {"temperature", "top_k", "top_p", "typical_p"}) && !is("temperature", 0);
  if (warps && is("do_sample", false)) params.erase("do_sample");
  const bool samples = warps || is("do_sample", true);
  if (answer.best_of > 1 && !samples)
    throw invalid_request("best_of", "needs do_sample, temperature, top_k, top_p or typical_p");
  if (params.contains("seed")) {
    if (answer.best_of > 1) throw invalid_request("seed", "is not for best_of above 1");
    const auto& seed = params["seed"];
    if (seed.is_number_integer() && seed >= 0) answer.seed = seed.get<uint64_t>();
  } else if (samples) {
    params["seed"] = *(answer.seed = random_seed());
  }
}

void set_details(json& params, GenerationRequest& r, HuggingFaceAnswer& answer) {
  const bool prefill = take_bool(params, "decoder_input_details").value_or(false);
  answer.details = take_bool(params, "details").value_or(false) || prefill;
  answer.prefill = prefill;
  const auto top = take_int(params, "top_n_tokens", 0, kMaxLogprobs);
  if (prefill && r.stream)
    throw not_supported("decoder_input_details", "is not streamed; ask without \"stream\"");
  r.prompt_logprobs = prefill;
  if (prefill) params["prompt_logprobs"] = 0;
  const bool shown = answer.details || r.stream;
  if (shown || answer.best_of > 1) params["logprobs"] = shown ? top.value_or(0) : 0;
  r.names.add("prompt_logprobs", "parameters.decoder_input_details");
  r.names.add("logprobs", top              ? "parameters.top_n_tokens"
                          : answer.details ? "parameters.details"
                                           : "stream");
}

void set_best_of(json& params, bool stream, HuggingFaceAnswer& answer) {
  const auto best = take_int(params, "best_of", 1, kMaxSequences);
  if (!best || *best == 1) return;
  if (stream) throw not_supported("best_of", "is not streamed; ask without \"stream\"");
  for (const char* same : {"n", "num_return_sequences"})
    if (params.contains(same))
      throw invalid_request("best_of", std::string("and ") + same + ": give one of them");
  answer.best_of = static_cast<int>(*best);
}

void set_lengths(json& params, const AppContext& app) {
  if (!app.sets_length &&
      !has_one_of(params, {"max_new_tokens", "max_length", "max_tokens", "task"}))
    params["max_tokens"] = kDefaultTokens;  // which is cut to what the model can
}

// Everything in `parameters`; errors have the bare names.
void read_parameters(json params, HuggingFaceKind kind, const AppContext& app,
                     HuggingFaceRequest& out) {
  GenerationRequest& r = out.generation;
  HuggingFaceAnswer& answer = out.answer;
  refuse_fields(params, kRefusedParameters);
  for (const char* name : kParametersWithoutEffect) params.erase(name);
  const Urgency urgency = take_urgency(params, app.config);
  r.priority = urgency.priority;
  r.timeout = urgency.timeout;
  if (take_bool(params, "return_full_text").value_or(false))
    for (const proto::Prompt& prompt : r.prompts) r.echoes.push_back(prompt.encoder().text());
  take_truncation(params, r.names);
  take_stop(params, r.names);
  set_best_of(params, r.stream, answer);
  set_details(params, r, answer);
  set_sampling(params, answer);
  set_lengths(params, app);
  if (answer.best_of > 1) {
    params["n"] = answer.best_of;
    params["do_sample"] = true;
    r.names.add("n", "parameters.best_of");
  }
  r.options = read_options(params);
  const int64_t sequences =
      r.options.has_n() ? r.options.n() : std::max<int64_t>(r.options.num_return_sequences(), 1);
  r.sequences = static_cast<int>(sequences);
  answer.sequences = answer.best_of > 1 ? 1 : r.sequences;
  const char* count = r.options.has_n() ? "n" : "num_return_sequences";
  if (answer.sequences > 1 && (kind == HuggingFaceKind::kGenerate || r.stream))
    throw not_supported(count, "there is one answer; several are a pipeline's");
  if (r.prompts.size() * static_cast<size_t>(sequences) > static_cast<size_t>(kMaxSequences))
    throw invalid_request(answer.best_of > 1 ? "best_of" : count,
                          "and the inputs are more than " + std::to_string(kMaxSequences) +
                              " sequences, which is what fits a request");
  if (answer.details && (answer.several || answer.sequences > 1))
    throw not_supported("details", "are of one input and one answer");
}

std::vector<std::string> read_inputs(json& body, bool lists, const AppContext& app) {
  const auto it = body.find("inputs");
  if (it != body.end() && it->is_array() && !lists)
    throw invalid_request("inputs",
                          "expected a text; lists are for /pipeline/TASK, and for POST / "
                          "without \"stream\"");
  std::vector<std::string> texts = take_texts(body, "inputs");
  if (texts.size() > static_cast<size_t>(app.config.max_prompts))
    throw invalid_request("inputs", std::to_string(texts.size()) + " texts; at most " +
                                        std::to_string(app.config.max_prompts) + " fit a request");
  return texts;
}

// What HuggingFace's endpoints take beside inputs and parameters.
void take_options(json& body) {
  FieldNames names;
  json options = take_parameters(body, "options", "options.", names);
  names.around([&] {
    take_bool(options, "use_cache");
    take_bool(options, "wait_for_model");
    take_bool(options, "use_gpu");
    refuse_rest(options);
  });
}

}  // namespace

std::string_view text_key_of(std::string_view task) {
  for (const auto& [name, key] : kTextKeys)
    if (name == task) return key;
  return {};
}

json take_parameters(json& body, const char* field, const std::string& prefix, FieldNames& names) {
  json params = take(body, field).value_or(json::object());
  if (!params.is_object()) throw invalid_request(field, "expected an object");
  for (auto it = params.begin(); it != params.end();) {
    names.add(it.key(), prefix + it.key());
    it = it->is_null() ? params.erase(it) : std::next(it);
  }
  return params;
}

void unfold(json& parameters, const char* field, FieldNames& names) {
  FieldNames inner;
  const json more =
      take_parameters(parameters, field, "parameters." + std::string(field) + ".", inner);
  for (const auto& [name, value] : more.items())
    if (!parameters.emplace(name, value).second)
      throw invalid_request(inner.of(name), "is among the parameters too");
  names.add(inner);
}

HuggingFaceRequest parse_huggingface(json body, HuggingFaceKind kind, const std::string& task,
                                     const AppContext& app) {
  using enum HuggingFaceKind;
  HuggingFaceRequest out;
  GenerationRequest& r = out.generation;
  HuggingFaceAnswer& answer = out.answer;
  r.list_field = "inputs";
  r.model = check_model(app.config, body, r.lora);
  const bool says_stream = body.contains("stream");
  const bool stream = take_bool(body, "stream").value_or(false);
  if (stream && (kind == kGenerate || kind == kPipeline))
    throw not_supported("stream", "is for POST / and /generate_stream");
  r.stream = stream || kind == kStream;
  const auto inputs = body.find("inputs");
  answer.several = inputs != body.end() && inputs->is_array();
  answer.listed = kind == kRoot || kind == kPipeline;
  if (kind == kPipeline) answer.keys = {std::string(text_key_of(task))};
  // A client that does not say `stream` may mean any of these tasks.
  if (kind == kRoot && !says_stream)
    answer.keys = {"generated_text", "summary_text", "translation_text"};
  const auto texts = read_inputs(body, answer.listed && !r.stream, app);
  for (size_t i = 0; i < texts.size(); ++i)
    r.prompts.push_back(
        text_prompt(texts[i], answer.several ? "inputs[" + std::to_string(i) + "]" : "inputs"));
  json params = take_parameters(body, "parameters", "parameters.", r.names);
  for (const char* more : {"generate_parameters", "generate_kwargs"}) unfold(params, more, r.names);
  r.names.add("prompt", "inputs");
  if (const auto special = take_bool(body, "add_special_tokens"))
    params["add_special_tokens"] = *special;
  take_options(body);
  refuse_rest(body);
  const auto& tasks = app.tasks;
  if (std::find(tasks.begin(), tasks.end(), task) != tasks.end() && !params.contains("task"))
    params["task"] = task;
  try {
    read_parameters(std::move(params), kind, app, out);
  } catch (const InputError& error) {  // by the names, which reading has added to
    throw r.names.in(error);
  }
  check_copies(r.options.ByteSizeLong(), r.prompts.size(), app.config, "inputs");
  return out;
}

}  // namespace tandem::server
