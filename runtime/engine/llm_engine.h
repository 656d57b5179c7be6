// The synchronous engine: requests in, outputs out, one step at a time. A thin shell: EngineCore,
// StepLoop and Worker are those that a server's actors run, driven here in one thread. Owns
// everything below it. Used from one thread; needs no actors.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/core/engine_core.h"
#include "runtime/engine/step_loop.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/worker.h"
#include "runtime/request/request_processor.h"

namespace tandem {

class LLMEngine : private EngineOutbox {
 public:
  // Loads the checkpoint. Throws InputError naming the flag, file or tensor at fault.
  explicit LLMEngine(const EngineConfig& config, const LoadProgress& progress = {});
  ~LLMEngine() override;
  LLMEngine(const LLMEngine&) = delete;
  LLMEngine& operator=(const LLMEngine&) = delete;

  // Validates, tokenises (sound is read, which takes its time) and queues a request. Of smaller
  // priority is served first. Throws InputError, and then nothing has changed. request_id must be
  // unused.
  void add_request(const std::string& request_id, const proto::Prompt& prompt,
                   const proto::GenerationOptions& options, int priority = 0);
  // The same as JSON (runtime/protocol/prompt_reader.h, runtime/protocol/options_reader.h).
  void add_request(const std::string& request_id, const nlohmann::json& prompt,
                   const nlohmann::json& params, int priority = 0);
  // The same of one that has been prepared().
  void add_request(const std::string& request_id, PreparedRequest request, int priority = 0);
  RequestProcessor& processor() { return processor_; }
  // Whether there is memory for one more sound beside those that are transcribed. More is taken all
  // the same.
  bool takes_sound() const { return core_->takes_sound(); }
  bool abort_request(const std::string& request_id);
  bool has_unfinished_requests() const { return !unfinished_.empty(); }

  // Waits for one step, and returns the requests that ended with it: each once, whole. A device is
  // given the next step before; tokens of requests that end meanwhile are passed over.
  std::vector<proto::RequestOutput> step();
  // What has failed since the last call, by id: transcriptions may, after they were added.
  std::vector<std::pair<std::string, InputError>> take_failures() {
    return std::exchange(failures_, {});
  }
  // From now on `sink` is given, within step(), what is new of each request, the end included.
  // Beams and best_of show nothing before their end. The sink must not call the engine.
  using ChunkSink = std::function<void(const proto::RequestChunk& chunk)>;
  void stream_to(ChunkSink sink) { sink_ = std::move(sink); }

  const Tokenizer& tokenizer() const { return processor_.tokenizer(); }
  const ModelConfig& model_config() const { return processor_.model_config(); }
  const Scheduler& scheduler() const { return loop_->scheduler(); }
  DType dtype() const { return dtype_; }
  // Of the worker.
  DecoderStats decoder_stats() const { return worker_->decoder_stats(); }
  void time_decoder() { worker_->time_decoder(); }
  // Everything that keeps state agrees; for tests, after every step.
  void check_integrity() const;

 private:
  void to_scheduler(int replica, proto::SchedulerCommand command) override;
  void to_client(ClientId client, proto::ServerMessage message) override;
  void to_preparer(proto::SubmitRequest request) override;
  void answer_core();
  double now() const;

  RequestProcessor processor_;
  DType dtype_ = DType::kF32;
  std::unique_ptr<Worker> worker_;
  std::optional<StepLoop> loop_;
  std::optional<EngineCore> core_;
  ChunkSink sink_;
  std::vector<proto::SchedulerEvent> rejections_;             // that the core has not been told yet
  std::vector<proto::SubmitRequest> to_prepare_;              // that the core waits for
  std::string adding_;                                        // the request being added
  std::optional<proto::Error> refused_;                       // what became of it
  std::vector<std::pair<std::string, InputError>> failures_;  // of others
  std::unordered_map<std::string, proto::RequestOutput> unfinished_;  // what has come so far
  std::vector<proto::RequestOutput> finished_;                        // by the step under way
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tandem
