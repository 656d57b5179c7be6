// How an answer of generated text is written: whole, or as the events of a stream. Each interface
// that the server speaks has its own (OpenAI's, HuggingFace's, …).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

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
  const std::vector<int32_t>* decoder_prompt_token_ids = nullptr;  // with prompt_logprobs
  std::optional<double> score, cumulative_logprob;
  std::string finish_reason, stop_reason;
  // Of a model whose answers are more than texts (AnswerReader): what this one says, perhaps null.
  std::optional<nlohmann::ordered_json> parsed;
};

struct Usage {
  int prompt_tokens = 0, completion_tokens = 0;
};

// Lives on the strand of one answer, and may keep what it has written of it.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // The body. warnings: of all prompts, what is to be known of the answer (a summary of summaries).
  virtual std::string whole(const std::vector<Choice>& choices, const Usage& usage,
                            const std::vector<std::string>& warnings) = 0;
  // Events of a stream, framed; empty: nothing is to be sent.
  // begin: before the first news, once. choices: all, without text but an echo.
  virtual std::string begin(const std::vector<Choice>& choices, const Usage& usage) = 0;
  virtual std::string event(const Choice& news, const Usage& usage) = 0;
  // Whether it writes `parsed`; of a stream, as an event without text behind all others.
  virtual bool shows_parsed() const { return false; }
  // All has ended well, or with an error. Once.
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string failure(const proto::Error& error) = 0;
};

}  // namespace tandem::server
