// The synchronous engine: requests in, outputs out, one step at a time. Owns everything below it.
// Used from one thread; needs no actors.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/load_model.h"
#include "runtime/engine/request_state.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/model_runner.h"
#include "runtime/request/request_processor.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

class LLMEngine {
 public:
  // Loads the checkpoint. Throws InputError naming the flag, file or tensor at fault.
  explicit LLMEngine(const EngineConfig& config, const LoadProgress& progress = {});
  ~LLMEngine();

  // Validates, tokenises and queues a request. Of smaller priority is served first. Throws
  // InputError, and then nothing has changed. request_id must be unused.
  void add_request(const std::string& request_id, const proto::Prompt& prompt,
                   const proto::GenerationOptions& options, int priority = 0);
  // The same as JSON (runtime/protocol/prompt_reader.h, runtime/protocol/options_reader.h).
  void add_request(const std::string& request_id, const nlohmann::json& prompt,
                   const nlohmann::json& params, int priority = 0);
  bool abort_request(const std::string& request_id);
  bool has_unfinished_requests() const { return scheduler_->has_unfinished(); }

  // Waits for one step, and returns the outputs of the requests that it brought forward. A device
  // is given the next step before; tokens of requests that end meanwhile are passed over.
  std::vector<proto::RequestOutput> step();

  const Tokenizer& tokenizer() const { return processor_.tokenizer(); }
  const ModelConfig& model_config() const { return processor_.model_config(); }
  const Scheduler& scheduler() const { return *scheduler_; }
  DType dtype() const { return dtype_; }
  // Everything that keeps state agrees; for tests, after every step.
  void check_integrity() const;

 private:
  double now() const;

  EngineConfig engine_config_;
  RequestProcessor processor_;
  DType dtype_ = DType::kF32;
  std::unique_ptr<Context> ctx_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  size_t steps_in_flight_ = 1;
  std::deque<double> scheduled_at_;  // of the steps under way
  std::unordered_map<std::string, std::unique_ptr<RequestState>> requests_;
  int64_t next_seq_id_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tandem
