// OpenAI's JSON of generated text: whole answers and chunks of streams, for both endpoints; DeepL's
// of translations.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/answer_format.h"
#include "server/api/generation/generation_request.h"

namespace tandem::server {

class GenerationFormat final : public AnswerFormat {
 public:
  // fingerprint: of what computes, for OpenAI's system_fingerprint.
  GenerationFormat(const GenerationRequest& request, std::string id, std::time_t created,
                   std::string fingerprint)
      : request_(request),
        id_(std::move(id)),
        created_(created),
        fingerprint_(std::move(fingerprint)) {}

  std::string whole(const std::vector<Choice>& choices, const Usage& usage,
                    const std::vector<std::string>& warnings) override;
  std::string begin(const std::vector<Choice>& choices, const Usage& usage) override;
  std::string event(const Choice& news, const Usage& usage) override;
  std::string end(const Usage& usage) override;
  std::string failure(const proto::Error& error) override;
  bool shows_parsed() const override {
    return request_.endpoint == Endpoint::kCompletions || request_.endpoint == Endpoint::kChat;
  }
  static std::string frame(const std::string& data) { return "data: " + data + "\n\n"; }

 private:
  std::string translations(const std::vector<Choice>& choices, const Usage& usage) const;
  const char* model_type_used() const;
  Json envelope(const char* object) const;
  Json top_of(const proto::TokenLogprobs& t) const;
  Json logprobs(const Choice& choice) const;
  std::string text_of(const proto::TokenLogprob& t) const;
  Json choice_body(const Choice& choice, bool whole) const;
  std::string first_event(const Choice& choice, const Usage& usage) const;  // chat: the role
  std::string chunk(Json choices, const Usage* usage,
                    const std::vector<int32_t>* prompt_token_ids = nullptr) const;

  const GenerationRequest& request_;
  std::string id_;
  std::time_t created_;
  std::string fingerprint_;
};

// A token of a chat's log-probabilities: {"token", "logprob", "bytes"}. text: what stands for it.
Json token_json(const proto::TokenLogprob& token, const std::string& text);
// The chosen token with its `top_logprobs`. text_of(token): what stands for one.
template <class TextOf>
Json token_with_top_json(const proto::TokenLogprobs& t, const TextOf& text_of) {
  Json token = token_json(t.top(0), text_of(t.top(0)));
  token["top_logprobs"] = Json::array();
  for (int i = 1; i < t.top_size(); ++i)
    token["top_logprobs"].push_back(token_json(t.top(i), text_of(t.top(i))));
  return token;
}

}  // namespace tandem::server
