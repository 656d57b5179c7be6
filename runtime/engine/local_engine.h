// An engine of one rank in this process, on a thread of its own. No actors: EngineCore, StepLoop
// and Worker, driven by EngineShell.
#pragma once

#include <memory>
#include <string>

#include "models/load_model.h"
#include "runtime/engine/engine_api.h"
#include "runtime/execution/engine_config.h"
#include "runtime/request/request_processor.h"

namespace tandem {

class LocalEngine final : public EngineApi {
 public:
  // Loads the checkpoint; returns when requests can be computed. `progress` is called from the
  // engine's thread, while the constructor waits. Throws InputError naming flag, file or tensor.
  explicit LocalEngine(const EngineConfig& config, const LoadProgress& progress = {});
  // Finishes the step under way; every request that has not ended gets an error
  // ("unavailable_error"). No callback runs afterwards. Not from a callback.
  ~LocalEngine() override;
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  // Callbacks run on the engine's thread, between two steps. They may call submit(), cancel() and
  // status(). No request is refused because there are too many.
  void submit(Request request, OnChunk on_chunk) override;
  void cancel(const std::string& id) override;
  // Not ready: a step failed (a device was lost, say), and the engine computes nothing any more.
  EngineStatus status() override;

  // The model's config and tokenizer, as requests are prepared with them. Any thread.
  const RequestProcessor& request_processor() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tandem
