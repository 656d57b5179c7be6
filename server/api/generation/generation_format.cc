#include "server/api/generation/generation_format.h"

#include "base/json.h"
#include "base/strings/code_points.h"
#include "runtime/request/request_json.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// vLLM's: nothing comes before the first token.
Json prompt_logprobs_json(const std::vector<proto::TokenLogprobs>& logprobs) {
  Json list = Json::array({nullptr});
  for (const proto::TokenLogprobs& one : logprobs) list.push_back(logprobs_to_json(one));
  return list;
}

}  // namespace

Json token_json(const proto::TokenLogprob& token, const std::string& text) {
  return {
      {"token", text}, {"logprob", token.logprob()}, {"bytes", bytes_of(token.decoded_token())}};
}

Json GenerationFormat::envelope(const char* object) const {
  Json body = {{"id", id_}, {"object", object}, {"created", created_}, {"model", request_.model}};
  body["system_fingerprint"] = fingerprint_;
  if (request_.endpoint == Endpoint::kChat) body["service_tier"] = "default";
  return body;
}

std::string GenerationFormat::text_of(const proto::TokenLogprob& t) const {
  return request_.tokens_as_ids ? "token_id:" + std::to_string(t.token_id()) : t.decoded_token();
}

// As OpenAI's completions: the most likely tokens, and the chosen one in any case. Two tokens may
// have the same text: the chosen one counts, else the likelier one.
Json GenerationFormat::top_of(const proto::TokenLogprobs& t) const {
  // The chosen one first, as vLLM's.
  Json top = {{text_of(t.top(0)), t.top(0).logprob()}};
  for (int i = 1; i < t.top_size(); ++i) {
    const std::string text = text_of(t.top(i));
    if (!top.contains(text)) top[text] = t.top(i).logprob();
  }
  return top;
}

Json GenerationFormat::logprobs(const Choice& choice) const {
  if (!request_.logprobs) return {};
  if (request_.endpoint == Endpoint::kChat) {
    Json content = Json::array();
    for (const proto::TokenLogprobs& t : choice.logprobs)
      content.push_back(token_with_top_json(t, [this](const auto& one) { return text_of(one); }));
    return {{"content", content}, {"refusal", nullptr}};
  }
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
       offsets = Json::array();
  size_t offset = choice.text_offset;
  for (const proto::TokenLogprobs& t : choice.logprobs) {
    tops.push_back(top_of(t));
    tokens.push_back(text_of(t.top(0)));
    values.push_back(t.top(0).logprob());
    offsets.push_back(offset);
    offset += count_code_points(t.top(0).decoded_token());
  }
  return {{"tokens", tokens},
          {"token_logprobs", values},
          {"top_logprobs", tops},
          {"text_offset", offsets}};
}

Json GenerationFormat::choice_body(const Choice& choice, bool whole) const {
  Json body = {{"index", choice.index}};
  if (request_.endpoint == Endpoint::kCompletions) {
    body["text"] = choice.text;
  } else if (whole) {
    body["message"] = {{"role", "assistant"},
                       {"content", choice.text},
                       {"refusal", nullptr},
                       {"annotations", Json::array()}};
  } else {
    body["delta"] = choice.text.empty() && !choice.finish_reason.empty()
                        ? Json::object()
                        : Json({{"content", choice.text}});
  }
  if (choice.parsed) {
    Json& where = request_.endpoint != Endpoint::kChat ? body : body[whole ? "message" : "delta"];
    where["parsed"] = *choice.parsed;
  }
  body["logprobs"] = choice.logprobs.empty() ? Json() : logprobs(choice);
  body["finish_reason"] = text_or_null(choice.finish_reason);
  if (!choice.finish_reason.empty()) body["stop_reason"] = text_or_null(choice.stop_reason);
  if (request_.return_token_ids) body["token_ids"] = choice.token_ids;
  if (choice.prompt_token_ids != nullptr && request_.endpoint == Endpoint::kCompletions)
    body["prompt_token_ids"] = *choice.prompt_token_ids;
  // HuggingFace's sequences_scores.
  if (choice.score) body["score"] = *choice.score;
  if (choice.prompt_logprobs != nullptr && request_.endpoint == Endpoint::kCompletions)
    body["prompt_logprobs"] = prompt_logprobs_json(*choice.prompt_logprobs);
  return body;
}

// One model is all that there is.
const char* GenerationFormat::model_type_used() const {
  return request_.deepl.model_type == "latency_optimized" ? "latency_optimized"
                                                          : "quality_optimized";
}

// DeepL's, and what it does not tell.
std::string GenerationFormat::translations(const std::vector<Choice>& choices,
                                           const Usage& usage) const {
  Json body = {{"translations", Json::array()}};
  for (const Choice& choice : choices) {
    Json one = {{"detected_source_language", request_.source_language}, {"text", choice.text}};
    if (request_.deepl.show_billed_characters)
      one["billed_characters"] = request_.characters.at(static_cast<size_t>(choice.index));
    if (!request_.deepl.model_type.empty()) one["model_type_used"] = model_type_used();
    one["finish_reason"] = text_or_null(choice.finish_reason);
    body["translations"].push_back(std::move(one));
  }
  body["model"] = request_.model;
  body["usage"] = usage_json(usage);
  return dump_ordered_line(body);
}

std::string GenerationFormat::whole(const std::vector<Choice>& choices, const Usage& usage,
                                    const std::vector<std::string>& warnings) {
  if (request_.endpoint == Endpoint::kTranslate) return translations(choices, usage);
  if (request_.endpoint == Endpoint::kLibreTranslate) {
    std::vector<std::string> texts;
    for (const Choice& choice : choices) texts.push_back(choice.text);
    return dump_ordered_line(libretranslate_answer(request_.libretranslate, texts));
  }
  Json body =
      envelope(request_.endpoint == Endpoint::kChat ? "chat.completion" : "text_completion");
  body["choices"] = Json::array();
  for (const Choice& choice : choices) body["choices"].push_back(choice_body(choice, true));
  body["usage"] = usage_json(usage);
  // vLLM has them in the choices of completions, and here for chats.
  if (request_.endpoint == Endpoint::kChat && choices.front().prompt_logprobs != nullptr)
    body["prompt_logprobs"] = prompt_logprobs_json(*choices.front().prompt_logprobs);
  if (request_.endpoint == Endpoint::kChat && choices.front().prompt_token_ids != nullptr)
    body["prompt_token_ids"] = *choices.front().prompt_token_ids;
  if (!warnings.empty()) body["warnings"] = warnings;
  return dump_ordered_line(body);
}

std::string GenerationFormat::chunk(Json choices, const Usage* usage,
                                    const std::vector<int32_t>* prompt_token_ids) const {
  Json body =
      envelope(request_.endpoint == Endpoint::kChat ? "chat.completion.chunk" : "text_completion");
  body["choices"] = std::move(choices);
  // OpenAI's: null in all but the one that has it.
  if (usage != nullptr)
    body["usage"] = usage_json(*usage);
  else if (request_.include_usage)
    body["usage"] = nullptr;
  if (prompt_token_ids != nullptr) body["prompt_token_ids"] = *prompt_token_ids;
  return frame(dump_ordered_line(body));
}

std::string GenerationFormat::first_event(const Choice& first, const Usage& usage) const {
  const Json choice = {{"index", first.index},
                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                       {"logprobs", nullptr},
                       {"finish_reason", nullptr}};
  return chunk(Json::array({choice}), request_.continuous_usage ? &usage : nullptr,
               first.prompt_token_ids);
}

std::string GenerationFormat::begin(const std::vector<Choice>& choices, const Usage& usage) {
  if (request_.endpoint != Endpoint::kChat) return {};
  // It has no token yet; the first chunk's have been counted already.
  const Usage prompt{.prompt_tokens = usage.prompt_tokens, .completion_tokens = 0};
  std::string events;
  for (const Choice& choice : choices) events += first_event(choice, prompt);
  return events;
}

std::string GenerationFormat::event(const Choice& news, const Usage& usage) {
  return chunk(Json::array({choice_body(news, false)}),
               request_.continuous_usage ? &usage : nullptr);
}

std::string GenerationFormat::end(const Usage& usage) {
  return (request_.include_usage ? chunk(Json::array(), &usage) : "") + frame("[DONE]");
}

std::string GenerationFormat::failure(const proto::Error& error) {
  return frame(error_body(error)) + frame("[DONE]");
}

}  // namespace tandem::server
