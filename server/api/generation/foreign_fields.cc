// The three tables (foreign_fields.h). docs/serving.md has them in words.
#include "server/api/generation/foreign_fields.h"

#include <array>
#include <atomic>
#include <iterator>

#include "base/error.h"
#include "base/log/log.h"
#include "server/api/fields/json_body.h"

namespace tandem::server {
namespace {

// About accounting, or about what there is one way to do.
constexpr const char* kAccepted[] = {"user",
                                     "store",
                                     "metadata",
                                     "service_tier",
                                     "parallel_tool_calls",
                                     "safety_identifier",
                                     "prompt_cache_key",
                                     "prompt_cache_retention",
                                     "prediction",
                                     "add_generation_prompt"};

// Hints for models that reason, have a chat template or see pictures.
constexpr const char* kIgnored[] = {"reasoning_effort", "include_reasoning",
                                    "verbosity",        "chat_template_kwargs",
                                    "media_io_kwargs",  "mm_processor_kwargs"};

constexpr RefusedField kRefused[] = {
    {"tools", "[[]]", "this kind of model calls no tools"},
    {"functions", "[[]]", "this kind of model calls no tools"},
    {"tool_choice", R"(["none", "auto"])", "this kind of model calls no tools"},
    {"function_call", R"(["none", "auto"])", "this kind of model calls no tools"},
    {"modalities", R"([["text"]])", "only [\"text\"]"},
    {"audio", "[]", "this kind of model writes text only"},
    {"web_search_options", "[]", "this server searches nothing"},
    {"documents", "[[]]", "there is no template that would put them into the prompt"},
    {"chat_template", "[]", "the server has one: --prompt-template"},
    {"continue_final_message", "[false]", "the decoder begins with what decoder_prompt says"},
    {"prompt_embeds", "[]", "a prompt is a text or token ids"},
    {"truncation_side", R"(["right"])", "truncate_prompt_tokens cuts the tail, \"right\""},
    {"kv_transfer_params", "[{}]", "no other server has this one's cache"},
    {"vllm_xargs", "[{}]", "there are no plugins that would read them"},
};

bool is_empty(const nlohmann::json& value) {
  return value.is_null() || (value.is_structured() && value.empty());
}

void take_ignored(nlohmann::json& body) {
  static std::array<std::atomic<bool>, std::size(kIgnored)> said{};
  for (size_t i = 0; i < std::size(kIgnored); ++i) {
    const auto value = take(body, kIgnored[i]);
    if (value && !is_empty(*value) && !said[i].exchange(true))
      log_warning(
          "a request has the field {}, which means nothing to this model: ignored, here "
          "and from now on",
          kIgnored[i]);
  }
}

}  // namespace

void take_foreign_fields(nlohmann::json& body) {
  for (const char* name : kAccepted) body.erase(name);
  take_ignored(body);
  refuse_fields(body, kRefused);
}

std::vector<std::string> accepted_fields() { return {std::begin(kAccepted), std::end(kAccepted)}; }

std::vector<std::string> ignored_fields() { return {std::begin(kIgnored), std::end(kIgnored)}; }

std::vector<std::string> refused_fields() {
  std::vector<std::string> names;
  for (const RefusedField& field : kRefused) names.emplace_back(field.name);
  return names;
}

}  // namespace tandem::server
