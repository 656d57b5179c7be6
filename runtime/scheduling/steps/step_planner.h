// The passes of one step over running, swapped and waiting groups: who is in it, with how many
// tokens and which blocks. The contract, with its reasons: docs/scheduling.md §2 and §4.
//
// Order matters for the data as well. Workers swap out before they swap in, and copy last, so
// within one step no group is swapped in after another was swapped out (StepDraft::room), and a
// group is preempted only before it was given blocks in this step.
#pragma once

#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/beam_search_driver.h"
#include "runtime/scheduling/steps/preemptor.h"
#include "runtime/scheduling/steps/step_draft.h"

namespace tandem {

class StepPlanner {
 public:
  // All of them must outlive it.
  StepPlanner(const SchedulerConfig& config, GroupQueues& queues, BlockManager& blocks,
              const BeamSearchDriver& beams, Preemptor& preemptor)
      : config_(config), queues_(queues), blocks_(blocks), beams_(beams), preemptor_(preemptor) {}

  // Fills the draft, which has begun. Groups change queues; they advance when it takes off.
  void plan(StepDraft& draft);

 private:
  bool encoder_turn_due() const;
  void schedule_running(StepDraft& draft);
  void schedule_swapped(StepDraft& draft);
  void schedule_waiting(StepDraft& draft);

  std::vector<SequenceChunk> choose_decodes(const SequenceGroup& group, StepDraft& draft,
                                            bool* has_prompts) const;
  static void choose_prompts(const SequenceGroup& group, int min_tokens, StepDraft& draft,
                             std::vector<SequenceChunk>& chunks);
  void choose_admitted(const QueuedGroup& queued, StepDraft& draft) const;
  void append_slots(const SequenceGroup& group, std::vector<SequenceChunk>& chunks,
                    StepDraft& draft);

  bool make_room(const QueuedGroup& queued, int blocks, StepDraft& draft);
  bool seats_for(const SequenceGroup& group) const;
  bool keeps_headroom(const SequenceGroup& group, int blocks) const;
  bool can_admit(const QueuedGroup& queued) const;
  int encoder_cost(const SequenceGroup& group) const;
  void admit(QueuedGroup& queued, StepDraft& draft);

  const SchedulerConfig& config_;
  GroupQueues& queues_;
  BlockManager& blocks_;
  const BeamSearchDriver& beams_;
  Preemptor& preemptor_;
  bool last_was_turn_ = false;
  bool last_lacked_room_ = false;
};

}  // namespace tandem
