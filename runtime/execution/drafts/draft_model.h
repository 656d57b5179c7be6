// A small model that predicts a larger one's tokens (docs/design/scheduling.md §10). It has
// weights, keys and values of its own. Its pools have as many blocks as the larger one's, so the
// scheduler's block tables serve both. All ranks do the same. On a device its steps are the
// device's (DeviceDecoder), and are waited for. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/drafts/draft_confidence.h"
#include "runtime/execution/drafts/draft_cost.h"
#include "runtime/execution/drafts/draft_slots.h"
#include "runtime/execution/drafts/load_draft_model.h"
#include "runtime/execution/groups/worker_group.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/runner_config.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class DraftModel {
 public:
  // `ctx` and `comm` are those that the model was built on, and must outlive it.
  DraftModel(Context& ctx, Communicator& comm, LoadedDraftModel model, const RunnerConfig& config);

  // In this order, in every step. The step was applied to the table; these are its groups. On a
  // device no tensor of the step's scratch memory is alive.
  void begin_step(const proto::StepInput& step, const std::vector<WorkerGroup*>& scheduled);
  // What sequences with num_drafts are likely to go on with: their `drafts`, and `drafted`.
  void make_drafts(const std::vector<WorkerGroup*>& scheduled);
  // The model's encoder has run: `states` [positions, d_model] of `step`. Those groups that want
  // drafts are prepared for them.
  void prepare(const std::vector<WorkerGroup*>& scheduled, const StepTensors& step,
               const Tensor& states);

  // So many of the sequence's drafts of this step were right.
  void learn(int64_t seq_id, int right);

  DraftCost& cost() { return cost_; }

 private:
  // A sequence that is being drafted.
  struct Row {
    const WorkerGroup* group;
    WorkerSequence* seq;
    std::vector<int32_t> output;  // with the drafts
    int computed;                 // tokens that the draft model has seen
    double likely = 1;            // that all drafts are right
    int32_t next = 0;             // what is chosen behind them
    int belief = -1;              // DraftConfidence's bucket of that; below 0: it was drawn
    bool takes = true;            // that one
    // The request's, if it wants log-probabilities: without.
    std::unique_ptr<proto::SamplingParams> params = nullptr;

    bool goes_on() const;  // and more behind it
  };

  std::vector<Row> rows_to_draft(const std::vector<WorkerGroup*>& scheduled);
  void choose_next(const std::vector<Row*>& rows);
  std::vector<proto::SequenceOutput> run(const std::vector<Row*>& rows);
  std::vector<proto::SequenceOutput> choose(const ModelInput& in,
                                            const std::vector<SamplerSequence>& views,
                                            const std::vector<int32_t>& last);
  void agree(const std::vector<Row*>& rows);
  void run_encoder(const std::vector<const WorkerGroup*>& groups);

  Context& ctx_;
  Communicator& comm_;
  std::unique_ptr<Model> model_;
  bool shares_encoder_;
  int block_size_;
  KvCachePools pools_;
  std::optional<DeviceDecoder> decoder_;  // on a device
  DraftSlots slots_;
  DraftCost cost_;
  DraftConfidence confidence_;
  std::unordered_map<int64_t, std::vector<int>> beliefs_;  // of this step's greedy drafts
};

}  // namespace tandem
