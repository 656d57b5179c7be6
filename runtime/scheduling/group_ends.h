// How sequences and groups end: what they hold is freed, and workers hear of it with the next step.
#pragma once

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/drafts/speculator.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/steps/step_message_writer.h"

namespace tandem {

class GroupEnds {
 public:
  // All of them must outlive it.
  GroupEnds(GroupQueues& queues, BlockManager& blocks, Speculator& speculator,
            StepMessageWriter& writer)
      : queues_(queues), blocks_(blocks), speculator_(speculator), writer_(writer) {}

  // An unfinished sequence: its self blocks are free, its pending tokens dropped. With the last one
  // the group is finished, which keeps its cross blocks.
  void finish(QueuedGroup& queued, Sequence& seq, SequenceStatus status);
  // The whole group, whose beam search has ended.
  void finish_search(QueuedGroup& queued);
  // Frees all that the group holds, and forgets it, in whatever queue it is.
  void drop(QueuedGroup& queued);

 private:
  GroupQueues& queues_;
  BlockManager& blocks_;
  Speculator& speculator_;
  StepMessageWriter& writer_;
};

}  // namespace tandem
