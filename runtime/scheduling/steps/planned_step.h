// The step that is being scheduled: what is left of its budget, and who is in it with how much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/scheduling/blocks/block_caches.h"
#include "runtime/scheduling/group_queues.h"

namespace tandem {

// What the step computes of a sequence.
struct SequenceChunk {
  Sequence* seq;
  int tokens;
  int blocks = 0;          // new ones, in its table or in place of shared ones
  size_t old_blocks = 0;   // length of its table before, if there are new ones
  BlockPairs copies = {};  // (shared block, its replacement)
  // Behind `tokens`, which end with the last one that is known: what may come next.
  std::vector<int32_t> drafts = {};
  // Or so many that the workers' draft model says, as long as they are so likely.
  int asked_drafts = 0;
  double least_likelihood = 0;

  int num_drafts() const { return asked_drafts + static_cast<int>(drafts.size()); }
};

class PlannedStep {
 public:
  struct Group {
    QueuedGroup* queued;
    bool in_full;  // workers do not know it, or not as it is now
    bool compute_encoder = false;
    bool prepare_drafts = false;  // with it, for the draft model
    std::vector<SequenceChunk> chunks = {};
  };

  // most_spare: lists that take_spare() can give again.
  explicit PlannedStep(int most_spare) : most_spare_(static_cast<size_t>(most_spare)) {}

  // An empty step. now: any clock's seconds. budget: tokens.
  void begin(double now, int budget);
  // It is in flight, or not needed: nothing refers to its groups any more.
  void end();
  // The group's part, which is empty if it had none. Valid until the next put().
  Group& put(QueuedGroup& queued);
  Group& of(const QueuedGroup& queued) {
    return groups_[static_cast<size_t>(queued.planned_index)];
  }
  std::vector<Group>& groups() { return groups_; }
  const std::vector<Group>& groups() const { return groups_; }
  // An empty list; if possible with the memory of one that was used before.
  std::vector<SequenceChunk> take_spare();

  double now = 0;
  int budget = 0;                      // tokens left
  int num_seqs = 0;                    // that are in it
  bool preempting = true;              // decodes may preempt groups behind them
  bool room = true;                    // no running group lacks blocks, none was preempted
  BlockPairs swap_out, swap_in, copy;  // of blocks
  // Results of encoders that ran elsewhere (encoder_steps.h).
  struct Take {
    int rank = 0;
    int64_t seq_id = 0;  // the encoder's
    Blocks blocks = {};  // none: it is dropped
  };
  std::vector<Take> takes;

 private:
  size_t most_spare_;
  std::vector<Group> groups_;
  std::vector<std::vector<SequenceChunk>> spare_;
};

}  // namespace tandem
