// The passes of one step over running, swapped and waiting groups: who is in it, with how many
// tokens and which blocks. The contract, with its reasons: docs/design/scheduling.md §2 and §4.
//
// Order matters for the data as well. Workers swap out before they swap in, and copy last. So
// within a step no group is swapped in after another was swapped out (PlannedStep::room). And a
// group can be preempted only before it gets blocks in this step.
#pragma once

#include <utility>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/beam_search_driver.h"
#include "runtime/scheduling/steps/encoder_steps.h"
#include "runtime/scheduling/steps/planned_step.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

class StepPlanner {
 public:
  // All of them must outlive it.
  StepPlanner(const SchedulerConfig& config, GroupQueues& queues, BlockManager& blocks,
              const BeamSearchDriver& beams, const StepsInFlight& steps, EncoderSteps& encoders)
      : config_(config),
        queues_(queues),
        blocks_(blocks),
        beams_(beams),
        steps_(steps),
        encoders_(encoders) {}

  // Fills the step, which has begun. Groups change queues; they advance when it is launched.
  void plan(PlannedStep& step);

  int num_preemptions() const { return num_preemptions_; }  // so far
  // Groups preempted since the last call, in order; one may be there several times.
  std::vector<proto::RequestPreempted> take_preempted() { return std::exchange(preempted_, {}); }

 private:
  bool encoder_turn_due() const;
  void schedule_running(PlannedStep& step);
  void schedule_swapped(PlannedStep& step);
  void schedule_waiting(PlannedStep& step);

  std::vector<SequenceChunk> choose_decodes(const SequenceGroup& group, PlannedStep& step,
                                            bool* has_prompts) const;
  static void choose_prompts(const SequenceGroup& group, int min_tokens, PlannedStep& step,
                             std::vector<SequenceChunk>& chunks);
  void choose_admitted(const QueuedGroup& queued, PlannedStep& step) const;
  void append_slots(const SequenceGroup& group, std::vector<SequenceChunk>& chunks,
                    PlannedStep& step);

  bool is_next(const QueuedGroup& queued) const;
  int share_of(int seqs) const;
  bool has_seat(const PlannedStep& step) const;

  bool make_room(const QueuedGroup& queued, int blocks, PlannedStep& step);
  bool seats_for(const SequenceGroup& group) const;
  bool keeps_headroom(const SequenceGroup& group, int blocks) const;
  bool can_admit(const QueuedGroup& queued) const;
  int indivisible_cost(const SequenceGroup& group) const;
  void admit(QueuedGroup& queued, PlannedStep& step);

  void preempt(QueuedGroup& queued, PlannedStep& step);
  bool prefers_swap(const SequenceGroup& group) const;
  void recompute(QueuedGroup& queued);

  const SchedulerConfig& config_;
  GroupQueues& queues_;
  BlockManager& blocks_;
  const BeamSearchDriver& beams_;
  const StepsInFlight& steps_;
  EncoderSteps& encoders_;
  bool last_was_turn_ = false;
  bool last_lacked_room_ = false;
  int num_preemptions_ = 0;
  std::vector<proto::RequestPreempted> preempted_;
};

}  // namespace tandem
