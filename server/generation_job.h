// One HTTP request for text on its way through the engine: a request to the engine for each prompt,
// and one answer made of what comes back. Lives on the strand of its connection, as long as the
// engine or the exchange refers to it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/application.h"
#include "server/generation_format.h"
#include "server/generation_request.h"
#include "server/http.h"

namespace tandem::server {

class GenerationJob : public std::enable_shared_from_this<GenerationJob> {
 public:
  GenerationJob(AppContext& app, std::shared_ptr<Exchange> exchange, GenerationRequest request);
  ~GenerationJob();
  // Submits everything, or answers with an error.
  void start();

 private:
  using Clock = std::chrono::steady_clock;
  struct Part {  // a prompt
    std::string id;
    bool done = false;
    int prompt_tokens = 0, output_tokens = 0;
    Clock::time_point last_token;
    double first_token = -1;
    bool any = false;
  };

  void on_chunk(size_t part, const proto::RequestChunk& chunk);
  void take(size_t part, const proto::CompletionChunk& news);
  void count_tokens(Part& part, const proto::RequestChunk& chunk);
  void part_ended(Part& part, const proto::RequestChunk& chunk);
  void fail(const proto::Error& error);
  void cancel();
  void finish();
  void begin_stream();
  Usage usage() const;

  AppContext& app_;
  std::shared_ptr<Exchange> exchange_;
  const GenerationRequest request_;
  const GenerationFormat format_;
  const Clock::time_point begun_ = Clock::now();
  std::vector<Part> parts_;
  std::vector<Choice> choices_;  // whole ones; of a stream, without what has been sent
  size_t num_done_ = 0;
  bool streaming_ = false, ended_ = false;
};

}  // namespace tandem::server
