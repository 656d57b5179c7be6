#include <utility>

#include "base/json.h"
#include "server/api/generation/generation_format.h"
#include "server/api/responses/responses.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

Json usage_of_response(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cache_write_tokens", 0}, {"cached_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

const char* code_of(const proto::Error& error) {
  const int status = status_of(error.type());
  if (status == 429) return "rate_limit_exceeded";
  return status < 500 && status != 408 ? "invalid_prompt" : "server_error";
}

class ResponseFormat final : public AnswerFormat {
 public:
  ResponseFormat(const GenerationRequest& request, Json repeated, const std::string& id,
                 std::time_t created)
      : request_(request),
        repeated_(std::move(repeated)),
        id_("resp_" + id),
        message_id_("msg_" + id),
        created_(created) {}

  std::string whole(const std::vector<Choice>& choices, const Usage& usage,
                    const std::vector<std::string>& warnings) override {
    add(choices.front());
    Json body = finished(usage);
    if (!warnings.empty()) body["warnings"] = warnings;
    return dump_ordered_line(body);
  }

  std::string begin(const std::vector<Choice>&, const Usage&) override {
    const Json running = response("in_progress", Json::array());
    Json item = message("in_progress");
    item["content"] = Json::array();
    std::string events = event("response.created", {{"response", running}});
    events += event("response.in_progress", {{"response", running}});
    events += event("response.output_item.added", {{"output_index", 0}, {"item", item}});
    events += event("response.content_part.added", at_part({{"part", part()}}));
    return events;
  }

  std::string event(const Choice& news, const Usage&) override {
    const Json logprobs = add(news);
    if (news.text.empty() && logprobs.empty()) return {};
    return event("response.output_text.delta",
                 at_part({{"delta", news.text}, {"logprobs", logprobs}}));
  }

  std::string end(const Usage& usage) override {
    const Json body = finished(usage);
    std::string events =
        event("response.output_text.done", at_part({{"text", text_}, {"logprobs", logprobs_}}));
    events += event("response.content_part.done", at_part({{"part", part()}}));
    events +=
        event("response.output_item.done", {{"output_index", 0}, {"item", body["output"].front()}});
    events += event(is_cut() ? "response.incomplete" : "response.completed", {{"response", body}});
    return events;
  }

  std::string failure(const proto::Error& error) override {
    Json body = response("failed", Json::array());
    body["error"] = {{"code", code_of(error)}, {"message", error.message()}};
    return event("response.failed", {{"response", body}});
  }

 private:
  // Returns the log-probabilities of the news.
  Json add(const Choice& news) {
    text_ += news.text;
    finish_reason_ = news.finish_reason;
    Json logprobs = Json::array();
    if (request_.logprobs)
      for (const proto::TokenLogprobs& t : news.logprobs)
        logprobs.push_back(
            token_with_top_json(t, [](const auto& one) { return one.decoded_token(); }));
    for (const Json& one : logprobs) logprobs_.push_back(one);
    return logprobs;
  }

  bool is_cut() const { return finish_reason_ == "length"; }

  Json part() const {
    return {{"type", "output_text"},
            {"text", text_},
            {"annotations", Json::array()},
            {"logprobs", logprobs_}};
  }

  Json message(const char* status) const {
    return {{"id", message_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", Json::array({part()})}};
  }

  Json response(const char* status, Json output) const {
    Json body = {{"id", id_},        {"object", "response"},          {"created_at", created_},
                 {"status", status}, {"background", false},           {"completed_at", nullptr},
                 {"error", nullptr}, {"incomplete_details", nullptr}, {"model", request_.model}};
    body["output"] = std::move(output);
    body.update(repeated_);
    body["previous_response_id"] = nullptr;
    body["reasoning"] = {{"effort", nullptr}, {"summary", nullptr}};
    body["service_tier"] = "default";
    body["store"] = false;
    body["tool_choice"] = "none";
    body["tools"] = Json::array();
    body["usage"] = nullptr;
    return body;
  }

  Json finished(const Usage& usage) const {
    const char* status = is_cut() ? "incomplete" : "completed";
    Json body = response(status, Json::array({message(status)}));
    if (is_cut())
      body["incomplete_details"] = {{"reason", "max_output_tokens"}};
    else
      body["completed_at"] = std::time(nullptr);
    body["usage"] = usage_of_response(usage);
    return body;
  }

  Json at_part(Json fields) const {
    Json out = {{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}};
    out.update(fields);
    return out;
  }

  std::string event(const char* type, const Json& fields) {
    Json body = {{"type", type}, {"sequence_number", sequence_++}};
    body.update(fields);
    return "event: " + std::string(type) + "\ndata: " + dump_ordered_line(body) + "\n\n";
  }

  const GenerationRequest& request_;
  const Json repeated_;
  const std::string id_, message_id_;
  const std::time_t created_;
  std::string text_, finish_reason_;
  Json logprobs_ = Json::array();
  int sequence_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> response_format(const GenerationRequest& request, Json repeated,
                                              const std::string& id, std::time_t created) {
  return std::make_unique<ResponseFormat>(request, std::move(repeated), id, created);
}

}  // namespace tandem::server
