// How a running group gives up its blocks: to the host pool, or to be computed again
// (docs/scheduling.md §4).
#pragma once

#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/step_draft.h"

namespace tandem {

class Preemptor {
 public:
  // All of them must outlive it.
  Preemptor(const SchedulerConfig& config, GroupQueues& queues, BlockManager& blocks)
      : config_(config), queues_(queues), blocks_(blocks) {}

  // Running → swapped or waiting. The group is not in the step.
  void preempt(QueuedGroup& queued, StepDraft& draft);

  int count() const { return count_; }  // so far
  // Groups preempted since the last call, in order; one may be there several times.
  std::vector<proto::RequestPreempted> take();

 private:
  bool prefers_swap(const SequenceGroup& group) const;
  void recompute(SequenceGroup& group);

  const SchedulerConfig& config_;
  GroupQueues& queues_;
  BlockManager& blocks_;
  int count_ = 0;
  std::vector<proto::RequestPreempted> preempted_;
};

}  // namespace tandem
