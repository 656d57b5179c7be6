// One HTTP request for text: a request to the engine for each prompt, and one answer, or stream,
// made of what comes back.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/request/answer_reader.h"
#include "server/api/engine_job.h"
#include "server/api/generation/answer_format.h"
#include "server/api/generation/generation_request.h"
#include "server/http/http.h"

namespace tandem::server {

// Makes the format of an answer. The request outlives it; id: the answer's, without a prefix.
using MakeFormat = std::function<std::unique_ptr<AnswerFormat>(
    const AppContext& app, const GenerationRequest& request, const std::string& id)>;
std::unique_ptr<AnswerFormat> openai_format(const AppContext& app, const GenerationRequest& request,
                                            const std::string& id);

class GenerationJob final : public EngineJob {
 public:
  GenerationJob(AppContext& app, std::shared_ptr<Exchange> exchange, GenerationRequest request,
                const MakeFormat& make_format = openai_format);
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  struct PromptProgress {  // a prompt
    int prompt_tokens = 0, output_tokens = 0;
    std::vector<int> lengths;  // tokens of each sequence
    Clock::time_point last_token;
    double first_token = -1;  // seconds since the arrival; -1: none yet
    std::vector<proto::TokenLogprobs> prompt_logprobs;
    std::vector<int32_t> prompt_token_ids;          // if asked for
    std::vector<int32_t> decoder_prompt_token_ids;  // the same, or where answers are read
    AnswerReader::Question question;
  };

  void on_chunk(size_t part, const proto::RequestChunk& chunk) override;
  void fail(const proto::Error& error) override;
  void finish() override;
  std::string list_field() const override { return request_.list_field; }
  void take(size_t part, const proto::CompletionChunk& news);
  void count_tokens(PromptProgress& part, const proto::RequestChunk& chunk);
  void count_end(const PromptProgress& part, const proto::RequestChunk& chunk);
  void begin_stream();
  void write(std::string events);
  void join_documents();
  // What the answers say, by choice; not on the strand.
  using Answers = std::vector<std::optional<nlohmann::ordered_json>>;
  bool reads_answers() const;
  Answers read_answers() const;
  void respond(Answers answers);

  const GenerationRequest request_;
  const std::unique_ptr<AnswerFormat> format_;
  std::vector<PromptProgress> parts_;
  std::vector<Choice> choices_;  // whole ones; of a stream, without what has been sent
  std::vector<std::vector<int32_t>> answer_ids_;  // of each choice, where answers are read
  Usage usage_;                                   // of all parts
  std::vector<std::string> warnings_;
  bool streaming_ = false;
};

}  // namespace tandem::server
