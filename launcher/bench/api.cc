#include "launcher/bench/api.h"

#include "base/error.h"
#include "base/json.h"

namespace tandem::bench {
namespace {

using nlohmann::json;

struct Known {
  const char* name;
  Api api;
  const char* path;
};

constexpr Known kKnown[] = {
    {"openai", Api::kCompletions, "/v1/completions"},
    {"vllm", Api::kCompletions, "/v1/completions"},
    {"openai-chat", Api::kChat, "/v1/chat/completions"},
    {"openai-embeddings", Api::kEmbeddings, "/v1/embeddings"},
    {"openai-audio", Api::kAudio, "/v1/audio/transcriptions"},
};

// As a field of a form.
std::string plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

}  // namespace

Api parse_api(const std::string& name) {
  std::string names;
  for (const Known& known : kKnown) {
    if (name == known.name) return known.api;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw invalid_request("--backend", "\"" + name + "\" is not one of " + names);
}

const char* default_path(Api api) {
  for (const Known& known : kKnown)
    if (api == known.api) return known.path;
  return "";
}

Job make_job(Api api, const std::string& model, const Item& item, const json& extra) {
  json body = {{"model", model}};
  if (api == Api::kEmbeddings) {
    body["input"] = item.prompt;
  } else {
    body["stream"] = true;
    if (api == Api::kAudio)
      body["stream_include_usage"] = true;  // vLLM's; others ignore it
    else
      body["stream_options"] = {{"include_usage", true}};
    if (api == Api::kChat)
      body["messages"] = json::array({{{"role", "user"}, {"content", item.prompt}}});
    if (api == Api::kCompletions) body["prompt"] = item.prompt;
    if (item.output_len > 0) {
      body[api == Api::kCompletions ? "max_tokens" : "max_completion_tokens"] = item.output_len;
      // Recordings end where the speech does, whatever the bound.
      if (api != Api::kAudio) body["ignore_eos"] = true;
    }
  }
  for (const auto& [name, value] : extra.items()) {
    if (value.is_null())
      body.erase(name);
    else
      body[name] = value;
  }
  Job job;
  job.prompt_tokens = item.prompt_tokens;
  if (api != Api::kAudio) {
    job.body = json_text(body);
    return job;
  }
  for (const auto& [name, value] : body.items()) job.fields.emplace_back(name, plain(value));
  job.file = item.clip;
  return job;
}

}  // namespace tandem::bench
