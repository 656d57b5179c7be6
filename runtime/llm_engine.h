// The synchronous engine: requests in, outputs out, one step at a time. Owns everything below it.
// Used from one thread; needs no actors.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/load_model.h"
#include "runtime/engine_config.h"
#include "runtime/model_runner.h"
#include "runtime/output_processor.h"
#include "runtime/params.h"
#include "runtime/prompt.h"
#include "runtime/scheduler.h"
#include "runtime/tokenizer.h"

namespace tandem {

class LLMEngine {
 public:
  // Loads the checkpoint. Throws InputError naming the flag, file or tensor at fault.
  explicit LLMEngine(const EngineConfig& config, const LoadProgress& progress = {});
  ~LLMEngine();

  // Validates, tokenises and queues a request; prompt and params as JSON (runtime/prompt.h,
  // runtime/params.h). Throws InputError, and then nothing has changed. request_id must be unused.
  void add_request(const std::string& request_id, const nlohmann::json& prompt,
                   const nlohmann::json& params);
  bool abort_request(const std::string& request_id);
  bool has_unfinished_requests() const { return scheduler_->has_unfinished(); }

  // Runs one step, and returns the outputs of the requests that it brought forward.
  std::vector<proto::RequestOutput> step();

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& model_config() const { return config_; }
  const Scheduler& scheduler() const { return *scheduler_; }
  DType dtype() const { return dtype_; }
  // Everything that keeps state agrees; for tests, after every step.
  void check_integrity() const;

 private:
  struct Request {
    proto::EncoderDecoderInputs inputs;
    proto::SamplingParams params;
    double arrival = 0, first_scheduled = -1, first_token = -1;
    std::vector<SequenceOutputState> seqs;
    std::vector<proto::TokenLogprobs> prompt_logprobs;
  };

  double now() const;
  SchedulerConfig scheduler_config(const KvCacheSpec& spec) const;
  static void add_prompt_logprobs(Request& request, const proto::SequenceGroupOutput& group);
  void process_sample(const std::string& request_id, Request& request,
                      const proto::SequenceOutput& sample);
  proto::RequestOutput output_of(const std::string& request_id, const Request& request) const;

  EngineConfig engine_config_;
  ModelConfig config_;
  DType dtype_ = DType::kF32;
  std::unique_ptr<Context> ctx_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ParamsResolver> resolver_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  std::unordered_map<std::string, Request> requests_;
  int64_t next_seq_id_ = 0;
  uint64_t next_seed_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tandem
