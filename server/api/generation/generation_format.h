// OpenAI's JSON of generated text: whole answers and chunks of streams, for both endpoints; DeepL's
// of translations.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "server/api/generation/generation_request.h"
#include "server/api/json_body.h"

namespace tandem::server {

// A sequence of the answer, or what a chunk adds to it.
struct Choice {
  int index = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<proto::TokenLogprobs> logprobs;
  // Characters (Unicode code points), as OpenAI and vLLM count them.
  size_t text_offset = 0;  // in the whole, of the text of the first of token_ids
  size_t news_length = 0;  // of `text`: without an echo in front
  const std::vector<proto::TokenLogprobs>* prompt_logprobs = nullptr;  // if asked for; of a whole
  // If asked for: of the encoder's input. Of a stream, in the first chunk of the sequence.
  const std::vector<int32_t>* prompt_token_ids = nullptr;
  std::optional<double> score, cumulative_logprob;
  std::string finish_reason, stop_reason;
};

struct Usage {
  int prompt_tokens = 0, completion_tokens = 0;
};

class GenerationFormat {
 public:
  // fingerprint: of what computes, for OpenAI's system_fingerprint.
  GenerationFormat(const GenerationRequest& request, std::string id, std::time_t created,
                   std::string fingerprint)
      : request_(request),
        id_(std::move(id)),
        created_(created),
        fingerprint_(std::move(fingerprint)) {}

  // warnings: of all prompts, what is to be known of the answer (a summary of summaries).
  std::string whole(const std::vector<Choice>& choices, const Usage& usage,
                    const std::vector<std::string>& warnings) const;
  // Events of a stream, framed.
  std::string first_event(const Choice& choice, const Usage& usage) const;  // chat: the role
  std::string event(const Choice& news, const Usage& usage) const;
  std::string usage_event(const Usage& usage) const;
  static std::string frame(const std::string& data) { return "data: " + data + "\n\n"; }

 private:
  std::string translations(const std::vector<Choice>& choices, const Usage& usage) const;
  const char* model_type_used() const;
  Json envelope(const char* object) const;
  Json top_of(const proto::TokenLogprobs& t) const;
  Json logprobs(const Choice& choice) const;
  Json chat_token(const proto::TokenLogprob& t) const;
  std::string text_of(const proto::TokenLogprob& t) const;
  Json choice_body(const Choice& choice, bool whole) const;
  std::string chunk(Json choices, const Usage* usage,
                    const std::vector<int32_t>* prompt_token_ids = nullptr) const;

  const GenerationRequest& request_;
  std::string id_;
  std::time_t created_;
  std::string fingerprint_;
};

}  // namespace tandem::server
