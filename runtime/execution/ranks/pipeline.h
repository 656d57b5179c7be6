// A rank's place among the stages of a pipeline: what it receives from the stage before, runs, and
// sends on (docs/parallel.md). Stages are in different steps at a time: a stage begins a step
// without waiting for what the last one says of those before. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/profile/profile.h"
#include "models/model.h"
#include "models/stage_plan.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/ranks/stage_clock.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// In a profile: a rank waits for another stage (base/profile/summary.h counts it as idle).
inline constexpr SpanKind kWaitForStages{"wait for stages", "stage wait"};

// Seconds that the stages computed in a step, without what they waited for each other.
struct StageSeconds {
  std::vector<double> of_stage;
  double encoder = 0;  // of all stages together

  double sum() const;
};

// Rank k of a stage talks to ranks k of the others only. All ranks of the group run the same steps,
// in the same order; in a step the ranks of a stage make the same calls.
class Pipeline {
 public:
  // group: the stages' ranks one after the other, equally many of each.
  // by_device: the group takes tensors of devices (make_device_group()). Else they go by the host.
  // layers: of this rank's stage, one of `stages`.
  Pipeline(Context& ctx, std::shared_ptr<Communicator> group, bool by_device, int stages,
           Stage layers);

  Communicator& group() { return *group_; }
  int stage() const { return stage_; }
  // The last stage has the heads, and chooses tokens.
  bool is_last() const { return stage_ + 1 == stages_; }

  // Around what a stage does of a step; between steps its time does not count.
  void begin_step();
  void end_step();
  // The encoder's last hidden states [tokens, d_model], on stages that have decoder layers; nothing
  // on the others.
  Tensor encode(Model& model, const StepTensors& in);
  // The decoder's last hidden states [T, d_model], on the last stage; nothing on the others.
  // layers: runs this stage's.
  Tensor decode(const std::function<StageState(StageState before)>& layers);
  // x, f32 in host memory, of the stages with decoder layers: on the last one their sum, in place.
  void add_up(const Tensor& x);
  // On the last stage: what it chose in a step, for the others, who hear it when they need it. They
  // know how much it is, and take it before more than kMostUnheard steps are not heard.
  void tell(std::span<int32_t> tokens);
  // On the others: the same of the oldest step that was not heard. Waits for it.
  void hear(std::span<int32_t> tokens);
  static constexpr int kMostUnheard = 15;  // with the next, kPiecesBetween

  // On the last stage, before the end of a step: of all stages, as far as they have said.
  StageSeconds seconds();

  // Of the model as a whole.
  struct Heads {
    bool language, output;
  };
  Heads heads_of(const Model& model);

 private:
  void send(const Tensor& x, int to);
  void receive(const Tensor& x, int from);
  void send_on(const StageState& state);
  StageState receive_state();
  int rank_of(int stage) const { return group_->rank() + (stage - stage_) * ranks_; }
  StageClock::Seconds untold();  // of this stage, which it says of this step

  Context& ctx_;
  std::shared_ptr<Communicator> group_;
  bool by_device_;
  int stages_, ranks_, stage_;  // ranks of a stage
  Stage layers_;
  StageClock clock_;
  // What this stage has told of its clock, and what it had told before this step.
  StageClock::Seconds told_, told_before_;
  std::vector<double> seconds_;  // of the stages before this one, in this step
  double encoder_seconds_ = 0;   // of these, in this step
};

}  // namespace tandem
