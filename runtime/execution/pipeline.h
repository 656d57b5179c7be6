// A rank's place among the stages of a pipeline: what it receives from the stage before, runs, and
// sends on (docs/parallel.md). Synchronous; one thread.
#pragma once

#include <memory>

#include "models/model.h"
#include "models/stage_plan.h"
#include "parallel/communicators/communicator.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Rank k of a stage talks to ranks k of the others only. All calls are made on all ranks of the
// group, in the same order.
class Pipeline {
 public:
  // group: the stages' ranks one after the other, equally many of each.
  // layers: of this rank's stage, one of `stages`.
  Pipeline(Context& ctx, std::shared_ptr<Communicator> group, int stages, Stage layers);

  Communicator& group() { return *group_; }
  int stage() const { return stage_; }
  // The last stage has the heads, and chooses tokens.
  bool is_last() const { return stage_ + 1 == stages_; }

  // The encoder's last hidden states [tokens, d_model], on stages that have decoder layers; nothing
  // on the others.
  Tensor encode(Model& model, const StepTensors& in);
  // The decoder's last hidden states [T, d_model], on the last stage; nothing on the others.
  Tensor decode(Model& model, const StepTensors& in, KvCache& cache);
  // x, f32 in host memory, of the stages with decoder layers: on the last one their sum, in place.
  void add_up(const Tensor& x);
  // What the last stage says of a step, on all stages. Throws std::runtime_error.
  void share(proto::StepOutput& out);

  // Of the model as a whole.
  struct Heads {
    bool language, output;
  };
  Heads heads_of(const Model& model);

 private:
  void send_on(const StageState& state);
  StageState receive_state();
  int rank_of(int stage) const { return group_->rank() + (stage - stage_) * ranks_; }

  Context& ctx_;
  std::shared_ptr<Communicator> group_;
  int stages_, ranks_, stage_;  // ranks of a stage
  Stage layers_;
};

}  // namespace tandem
