// A worker's synchronous half: executes steps on one rank. Knows nothing of requests, text or
// actors.
//
// A step on the CPU, on a stage of a pipeline or on a rank that runs encoders is
// host_model_runner.cc; another one on a device
// is device/device_model_runner.cc. Each reads from top to bottom. Both have the same stages:
// message, block copies, drafts, batch, encoder, decoder, choice of tokens. Those that are the same
// code are in step_stages.h.
//
// In a group of several ranks every rank's runner executes the same steps, in the same order, and
// returns the same tokens. Log-probabilities that requests ask for, candidates of beams and pooled
// vectors are in rank 0's output only (with stages, of each stage's first rank). A rank whose
// launch() or finish() fails behind the checks of the message aborts the group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/drafts/load_draft_model.h"
#include "runtime/execution/ranks/encoder_exchange.h"
#include "runtime/execution/ranks/pipeline.h"
#include "runtime/execution/runner_config.h"
#include "runtime/execution/step_runner.h"

namespace tandem {

class AdapterStore;     // models/adapters/adapter_store.h
class ConstraintStore;  // runtime/request/constraint_store.h

// What a rank computes with. The models were built on `ctx` and `comm`, the ranks of its stage,
// which outlive the runner.
struct RankModel {
  Context& ctx;
  Communicator& comm;
  std::unique_ptr<Model> model;
  std::optional<LoadedDraftModel> draft_model = {};  // makes the drafts that are asked for
  // Of requests that have one; null: there are none.
  std::shared_ptr<ConstraintStore> constraints = {};
  // Of the model, which was built with its set; null: requests have none.
  std::shared_ptr<AdapterStore> adapters = {};
  // Null: the model is not split by layers.
  std::shared_ptr<Pipeline> pipeline = {};
  // With encoders on ranks of their own. A rank that runs encoders has an outbox; its model has
  // what writes keys and values of cross-attention. A rank without encoder has an inbox.
  std::shared_ptr<EncoderOutbox> outbox = {};
  std::shared_ptr<EncoderInbox> inbox = {};
};

class ModelRunner : public StepRunner {
 public:
  // Before the first step: records steps of so many sequences that decode, for each size; in a
  // group on all ranks alike. Calls told(sizes done) behind each. On the CPU nothing is recorded.
  virtual RecordedSteps prepare_decoding(std::span<const int32_t> sizes,
                                         const std::function<void(size_t done)>& told) {
    return {};
  }
  // Of a device; on the CPU nothing is counted or timed.
  virtual DecoderStats decoder_stats() const { return {}; }
  virtual void time_decoder() {}
};

std::unique_ptr<ModelRunner> make_host_model_runner(RankModel rank, const RunnerConfig& config);
std::unique_ptr<ModelRunner> make_device_model_runner(RankModel rank, const RunnerConfig& config);

// The runner for rank.ctx. A device's stages hear of each other's tokens by the host, and its
// encoders hand on what they have computed.
inline std::unique_ptr<ModelRunner> make_model_runner(RankModel rank, const RunnerConfig& config) {
  const bool by_host = rank.ctx.on_cpu() || rank.pipeline || rank.outbox;
  return by_host ? make_host_model_runner(std::move(rank), config)
                 : make_device_model_runner(std::move(rank), config);
}

}  // namespace tandem
