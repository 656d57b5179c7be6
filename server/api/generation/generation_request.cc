#include "server/api/generation/generation_request.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/adapter_names.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/chat_messages.h"
#include "server/api/generation/document_prompts.h"
#include "server/api/generation/foreign_fields.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

constexpr int kMaxPriority = 1 << 30;

// OpenAI's clients send these as null where they mean nothing by it. For HuggingFace's names null
// switches an option off, which is the engine's to know.
constexpr const char* kNullIsAbsent[] = {"temperature",
                                         "top_p",
                                         "n",
                                         "stop",
                                         "seed",
                                         "max_tokens",
                                         "best_of",
                                         "logprobs",
                                         "logit_bias",
                                         "priority",
                                         "presence_penalty",
                                         "frequency_penalty"};

bool has(const nlohmann::json& params, const char* name) {
  const auto it = params.find(name);
  return it != params.end() && !it->is_null();
}

void take_stream(nlohmann::json& body, GenerationRequest& r) {
  r.stream = take_bool(body, "stream").value_or(false);
  auto options = take(body, "stream_options");
  if (!options) return;
  if (!r.stream) throw invalid_request("stream_options", "needs \"stream\": true");
  if (!options->is_object()) throw invalid_request("stream_options", "expected an object");
  r.include_usage = take_bool(*options, "include_usage").value_or(false);
  // As vLLM: a part of the usage, which include_usage asks for.
  r.continuous_usage =
      take_bool(*options, "continuous_usage_stats").value_or(false) && r.include_usage;
  take(*options, "include_obfuscation");
  if (!options->empty())
    throw invalid_request("stream_options", "unknown field \"" + options->begin().key() + "\"");
}

// vLLM's way to ask for beams: best_of (or n) is their number.
void translate_beam_search(nlohmann::json& params, FieldNames& names) {
  const auto use = take_bool(params, "use_beam_search");
  if (!use || !*use) return;
  if (has(params, "num_beams"))
    throw invalid_request("use_beam_search", "says the same as num_beams; give one of them");
  names.add("num_beams", has(params, "best_of") ? "best_of"
                         : has(params, "n")     ? "n"
                                                : "use_beam_search");
  const int64_t n = take_int(params, "n", 1, kMaxSequences).value_or(1);
  params["num_beams"] = take_int(params, "best_of", 1, kMaxSequences).value_or(n);
  if (n > 1) params["num_return_sequences"] = n;
  names.add("num_return_sequences", "n");
  take(params, "temperature");  // vLLM's users had to set it to 0
}

// OpenAI's later name, for completions too.
void translate_max_tokens(nlohmann::json& body, FieldNames& names) {
  const auto most = take(body, "max_completion_tokens");
  if (!most) return;
  if (has(body, "max_tokens") && body["max_tokens"] != *most)
    throw invalid_request("max_completion_tokens", "and max_tokens differ");
  if (!has(body, "max_tokens")) names.add("max_tokens", "max_completion_tokens");
  body["max_tokens"] = *most;
}

// Of a parameter with two names the one that is there.
void note_spellings(const nlohmann::json& body, FieldNames& names) {
  for (const auto& [ours, theirs] :
       {std::pair("src_lang", "source_lang"), std::pair("tgt_lang", "target_lang")})
    if (has(body, theirs) && !has(body, ours)) names.add(ours, theirs);
}

int count_of(const nlohmann::json& params) {
  for (const char* name : {"n", "num_return_sequences"}) {
    const auto it = params.find(name);
    if (it != params.end() && it->is_number_integer() && *it > 0 && *it <= kMaxSequences)
      return it->get<int>();
  }
  return 1;
}

bool begins_as_token_ids(const nlohmann::json& value) {
  return value.is_array() && !value.empty() && value.front().is_number();
}

std::optional<proto::PromptPart> take_decoder_prompt(nlohmann::json& body) {
  const auto prompt = take(body, "decoder_prompt");
  if (!prompt) return std::nullopt;
  return read_prompt_part(*prompt, "decoder_prompt");
}

proto::Prompt read_pair(const nlohmann::json& prompt,
                        const std::optional<proto::PromptPart>& decoder) {
  if (!decoder) return read_prompt(prompt);
  proto::Prompt pair;
  *pair.mutable_encoder() = read_prompt_part(prompt, "prompt");
  *pair.mutable_decoder() = *decoder;
  return pair;
}

std::vector<nlohmann::json> split_prompts(nlohmann::json prompt) {
  if (prompt.is_string() || prompt.is_object() || begins_as_token_ids(prompt))
    return {std::move(prompt)};
  if (!prompt.is_array())
    throw invalid_request("prompt", "expected a string, token ids, or a list of them");
  if (prompt.empty()) throw invalid_request("prompt", "the list is empty");
  std::vector<nlohmann::json> prompts;
  for (nlohmann::json& one : prompt) prompts.push_back(std::move(one));
  return prompts;
}

}  // namespace

void take_common(nlohmann::json& body, const ServerConfig& config, GenerationRequest& r) {
  r.model = check_model(config, body, r.lora);
  take_foreign_fields(body);
  for (const char* name : kNullIsAbsent)
    if (body.contains(name) && body[name].is_null()) body.erase(name);
  take_stream(body, r);
  const Urgency urgency = take_urgency(body, config);
  r.priority = urgency.priority;
  r.timeout = urgency.timeout;
  r.return_token_ids = take_bool(body, "return_token_ids").value_or(false);
  r.tokens_as_ids = take_bool(body, "return_tokens_as_token_ids").value_or(false);
  if (const auto id = take_string(body, "request_id")) {
    if (!is_request_id(*id))
      throw invalid_request("request_id",
                            "expected 1 to 128 printable ASCII characters without blanks, quotes "
                            "and backslashes");
    r.request_id = *id;
  }
}

void set_options(nlohmann::json body, const ServerConfig& config, GenerationRequest& r) {
  translate_beam_search(body, r.names);
  translate_max_tokens(body, r.names);
  note_spellings(body, r.names);
  // OpenAI's default is to sample, so several sequences are no contradiction there.
  const bool several = count_of(body) > 1 || (has(body, "best_of") && body["best_of"] != 1);
  if (several && !body.contains("do_sample") && !body.contains("temperature") &&
      !has(body, "num_beams"))
    body["do_sample"] = true;
  r.sequences = count_of(body);
  r.logprobs = has(body, "logprobs") && body["logprobs"] != false;
  r.prompt_logprobs = has(body, "prompt_logprobs") && body["prompt_logprobs"] != false;
  if (r.prompt_logprobs && r.stream)
    throw not_supported("prompt_logprobs", "is not streamed; ask without \"stream\"");
  const size_t all = r.prompts.size() * static_cast<size_t>(r.sequences);
  if (all > static_cast<size_t>(kMaxSequences))
    throw invalid_request("n", std::to_string(all) + " sequences; at most " +
                                   std::to_string(kMaxSequences) + " fit a request");
  r.options = r.names.around([&] { return read_options(body); });
  set_lora(r.lora, r.options);
  check_copies(r.options.ByteSizeLong(), r.prompts.size(), config, "prompt");
}

void check_copies(size_t bytes, size_t copies, const ServerConfig& config, const char* field) {
  constexpr size_t kGrowth = 4;
  if (bytes * copies > kGrowth * config.max_body_bytes)
    throw invalid_request(field, std::to_string(bytes) + " bytes for each of " +
                                     std::to_string(copies) +
                                     " prompts are more than fit a request");
}

Urgency take_urgency(nlohmann::json& body, const ServerConfig& config) {
  Urgency out;
  out.priority =
      static_cast<int32_t>(take_int(body, "priority", -kMaxPriority, kMaxPriority).value_or(0));
  out.timeout = take_number(body, "timeout", 1e-3, 1e6).value_or(config.request_timeout);
  if (config.request_timeout > 0) out.timeout = std::min(out.timeout, config.request_timeout);
  return out;
}

proto::GenerationOptions take_options(nlohmann::json& body, FieldNames& names,
                                      std::initializer_list<const char*> options) {
  nlohmann::json params = nlohmann::json::object();
  for (const char* name : options)
    if (auto value = take(body, name)) params[name] = std::move(*value);
  note_spellings(params, names);
  return names.around([&] { return read_options(params); });
}

proto::GenerationOptions take_encoding_options(nlohmann::json& body, FieldNames& names) {
  return take_options(body, names,
                      {"truncate_prompt_tokens", "add_special_tokens", "global_attention",
                       "src_lang", "source_lang", "tgt_lang", "target_lang", "task"});
}

InputError unknown_model(const ServerConfig& config, const std::string& name) {
  return {ErrorKind::kNotFound,
          "model: \"" + name.substr(0, 200) + "\" is not served here; \"" +
              config.model_names.front() + "\" is (--served-model-name gives it other names)",
          "model"};
}

std::string check_model(const ServerConfig& config, nlohmann::json& body, std::string& lora) {
  // huggingface_hub says "dummy" where its user gave a server's address in place of a model.
  const auto model = take_string(body, "model");
  if (!model || model->empty() || *model == "dummy") return config.model_names.front();
  const auto has_name = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), *model) != names.end();
  };
  if (has_name(config.model_names)) return *model;
  if (has_name(config.silent_names)) return config.model_names.front();
  if (config.adapters != nullptr && config.adapters->has(*model)) return lora = *model;
  throw unknown_model(config, *model);
}

void set_lora(const std::string& lora, proto::GenerationOptions& options) {
  if (!lora.empty()) options.set_lora(lora);
}

GenerationRequest parse_completion(nlohmann::json body, const ServerConfig& config) {
  GenerationRequest r;
  take_common(body, config, r);
  take_page_options(body, r);
  auto prompt = take(body, "prompt");
  if (!prompt) throw invalid_request("prompt", "is missing");
  const auto decoder_prompt = take_decoder_prompt(body);
  const bool echo = take_bool(body, "echo").value_or(false);
  if (const auto suffix = take_string(body, "suffix"); suffix && !suffix->empty())
    throw not_supported("suffix", "this kind of model does not insert");
  std::vector<nlohmann::json> prompts = split_prompts(std::move(*prompt));
  if (prompts.size() > static_cast<size_t>(config.max_prompts))
    throw invalid_request("prompt", std::to_string(prompts.size()) + " prompts; at most " +
                                        std::to_string(config.max_prompts) + " fit a request");
  if (decoder_prompt)
    check_copies(decoder_prompt->ByteSizeLong(), prompts.size(), config, "decoder_prompt");
  for (nlohmann::json& one : prompts) {
    if (echo) {
      if (!one.is_string()) throw invalid_request("echo", "needs prompts that are texts");
      r.echoes.push_back(one.get<std::string>());
    }
    r.prompts.push_back(read_pair(one, decoder_prompt));
  }
  set_options(std::move(body), config, r);
  return r;
}

GenerationRequest parse_chat(nlohmann::json body, const ServerConfig& config) {
  GenerationRequest r;
  r.endpoint = Endpoint::kChat;
  r.names.add("prompt", "messages");
  take_common(body, config, r);
  take_page_options(body, r);
  if (take_bool(body, "echo").value_or(false))
    throw not_supported("echo", "a chat's answer is the decoder's text only");
  const auto messages = take(body, "messages");
  if (!messages) throw invalid_request("messages", "is missing");
  proto::Prompt prompt;
  *prompt.mutable_encoder() = read_messages(*messages, config.prompt_template);
  if (auto decoder = take_decoder_prompt(body)) *prompt.mutable_decoder() = std::move(*decoder);
  r.prompts.push_back(std::move(prompt));
  const auto logprobs = take_bool(body, "logprobs");
  const auto top = take_int(body, "top_logprobs", 0, kMaxLogprobs);
  if (top && !logprobs.value_or(false))
    throw invalid_request("top_logprobs", "needs \"logprobs\": true");
  if (top) r.names.add("logprobs", "top_logprobs");
  if (logprobs.value_or(false)) body["logprobs"] = top.value_or(0);
  set_options(std::move(body), config, r);
  return r;
}

}  // namespace tandem::server
