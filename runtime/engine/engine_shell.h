// An engine of one rank in one thread: EngineCore, StepLoop and Worker, those that a server's
// actors run, tied together by calls. What LocalEngine runs on its thread, and what LLMEngine steps
// by hand. Owns everything below it. One thread, the same from the constructor to the destructor.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/core/engine_core.h"
#include "runtime/engine/step_loop.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/worker.h"
#include "runtime/request/request_processor.h"

namespace tandem {

class EngineShell : private EngineOutbox {
 public:
  // News of requests, called within the methods below. Must not call the shell.
  using OnChunk = std::function<void(proto::RequestChunk)>;

  // Loads the checkpoint. Throws InputError naming the flag, file or tensor at fault.
  EngineShell(const EngineConfig& config, const LoadProgress& progress, OnChunk on_chunk);
  ~EngineShell() override;
  EngineShell(const EngineShell&) = delete;
  EngineShell& operator=(const EngineShell&) = delete;

  // As EngineCore's: the id is taken, or InputError is thrown and nothing has changed; then one of
  // prepared() and failed() ends that. What is wrong from here on comes as a chunk.
  void reserve(const proto::SubmitRequest& submit);
  void prepared(const std::string& request_id, PreparedRequest request);
  void failed(const std::string& request_id, const InputError& error);
  // No chunk comes any more.
  void cancel(const std::string& request_id);
  bool awaits(const std::string& request_id) const { return core_->awaits(request_id); }
  bool takes_sound() const { return core_->takes_sound(); }
  size_t num_requests() const { return core_->num_requests(); }

  // Waits for one step. A device is given the next step before; tokens of requests that end
  // meanwhile are passed over. False: there was nothing to compute. Throws what the worker throws:
  // then no step can follow.
  bool step();
  // Deadlines; to be called about ten times a second.
  void tick();
  // No step will be computed any more: all requests fail, now and later.
  void give_up(const std::string& reason);

  // Those of a server of one rank.
  proto::ServerInfo info();
  RequestProcessor& processor() { return processor_; }
  const RequestProcessor& processor() const { return processor_; }
  const Scheduler& scheduler() const { return loop_->scheduler(); }
  DType dtype() const { return dtype_; }
  Worker& worker() { return *worker_; }
  const Worker& worker() const { return *worker_; }
  void check_integrity() const;

 private:
  void to_scheduler(int replica, proto::SchedulerCommand command) override;
  void to_client(ClientId client, proto::ServerMessage message) override;
  void to_preparer(proto::SubmitRequest request) override;
  void answer_core();
  double now() const;

  const std::string model_;
  RequestProcessor processor_;
  DType dtype_;
  std::unique_ptr<Worker> worker_;
  OnChunk on_chunk_;
  std::optional<StepLoop> loop_;
  std::optional<EngineCore> core_;
  std::vector<proto::SchedulerEvent> rejections_;  // that the core has not been told yet
  std::vector<proto::SubmitRequest> to_prepare_;   // parts that the core waits for
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tandem
