// Drafts in steps: which sequences get some, how many, and when a step waits for the one before it
// because of them. What a draft is worth is weighed against what it costs: docs/scheduling.md §10.
// Synchronous; the scheduler's thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/drafts/draft_lookup.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/step_draft.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

struct SpeculationStats {
  int64_t drafts = 0;           // times that a sequence was in a step with drafts
  int64_t draft_tokens = 0;     // in them
  int64_t accepted_tokens = 0;  // that were right
  std::vector<int64_t> accepted_per_position = {};  // of the n-th token of each draft
};

class Speculator {
 public:
  // Both must outlive it.
  Speculator(const SchedulerConfig& config, BlockManager& blocks);

  bool enabled() const { return config_.num_tokens > 0; }

  // Nothing is scheduled until the steps in flight have been completed: one of them has drafts, so
  // that nobody knows how long its sequences are; or drafts that are worth more than the pause
  // could be made then.
  bool waits(const GroupQueues& queues, const StepsInFlight& steps);
  // The step has been planned: its decodes get drafts, with what is left of the budget, and blocks
  // that nobody is short of.
  void add_drafts(const GroupQueues& queues, StepDraft& draft);
  // So many of a sequence's drafts were right.
  void count(size_t drafted, size_t accepted);
  // It has ended.
  void forget(const Sequence& seq) { lookups_.erase(seq.seq_id()); }

  const SpeculationStats& stats() const { return stats_; }
  // Each look-up has read what its sequence has known.
  void check_integrity(const GroupQueues& queues) const;

 private:
  DraftLookup& lookup_of(const SequenceGroup& group, const Sequence& seq);
  bool too_many(const GroupQueues& queues) const;
  double least_likelihood(const GroupQueues& queues) const;
  int room_for(const SequenceGroup& group, const Sequence& seq, int spare_blocks) const;
  void append_slots(SequenceChunk& chunk);

  const SpeculationConfig& config_;
  BlockManager& blocks_;
  HitRates rates_;
  std::unordered_map<int64_t, DraftLookup> lookups_;  // by sequence id
  SpeculationStats stats_;
  std::vector<int32_t> said_;
};

}  // namespace tandem
