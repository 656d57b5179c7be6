// One HTTP request for text: a request to the engine for each prompt, and one answer, or stream,
// made of what comes back.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/api/engine_job.h"
#include "server/api/generation/generation_format.h"
#include "server/api/generation/generation_request.h"
#include "server/http/http.h"

namespace tandem::server {

class GenerationJob final : public EngineJob {
 public:
  GenerationJob(AppContext& app, std::shared_ptr<Exchange> exchange, GenerationRequest request);
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  struct PromptProgress {  // a prompt
    int prompt_tokens = 0, output_tokens = 0;
    std::vector<int> lengths;  // tokens of each sequence
    Clock::time_point last_token;
    double first_token = -1;  // seconds since the arrival; -1: none yet
    std::vector<proto::TokenLogprobs> prompt_logprobs;
    std::vector<int32_t> prompt_token_ids;  // if asked for
  };

  void on_chunk(size_t part, const proto::RequestChunk& chunk) override;
  void fail(const proto::Error& error) override;
  void finish() override;
  std::string list_field() const override {
    if (request_.endpoint == Endpoint::kLibreTranslate) return "q";
    return request_.endpoint == Endpoint::kTranslate ? "text" : "prompt";
  }
  void take(size_t part, const proto::CompletionChunk& news);
  void count_tokens(PromptProgress& part, const proto::RequestChunk& chunk);
  void count_end(const PromptProgress& part, const proto::RequestChunk& chunk);
  void begin_stream();
  void join_documents();

  const GenerationRequest request_;
  const GenerationFormat format_;
  const Clock::time_point begun_ = Clock::now();
  std::vector<PromptProgress> parts_;
  std::vector<Choice> choices_;  // whole ones; of a stream, without what has been sent
  Usage usage_;                  // of all parts
  std::vector<std::string> warnings_;
  bool streaming_ = false;
};

}  // namespace tandem::server
