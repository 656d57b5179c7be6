// Drafts in steps: which sequences get some, how many, and when a step waits for the one before it
// because of them. What a draft is worth is weighed against what it costs:
// docs/design/scheduling.md §10. Synchronous; the scheduler's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/drafts/draft_lookup.h"
#include "runtime/scheduling/drafts/model_drafts.h"
#include "runtime/scheduling/drafts/step_times.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/planned_step.h"
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

  // Whether to schedule nothing until steps in flight are complete, of those that the next one
  // would run ahead of. One reason: a step has drafts, so the lengths of its sequences are unknown.
  // The other: drafts made after a pause are worth more than the pause. now: by the clock of
  // schedule().
  bool waits(const GroupQueues& queues, const StepsInFlight& steps, double now);
  // Adds drafts to the decodes of a planned step, from the rest of the budget and from blocks that
  // nobody lacks. Prepares new requests for the draft model.
  void add_drafts(const GroupQueues& queues, PlannedStep& step);
  // So many of a sequence's drafts were right. said: by the draft model, if it was asked and could.
  void count(const SequenceInFlight& scheduled, const std::optional<std::vector<int32_t>>& said,
             size_t accepted);
  // What workers have measured of a step that has been completed.
  void measure(const StepInFlight& step, const proto::StepOutput& answer);
  // It has ended. Others' drafts may be looked up in its text, unless it has a salt of its own.
  void forget(const SequenceGroup& group, const Sequence& seq);

  const SpeculationStats& stats() const { return stats_; }
  // Each look-up has read what its sequence has known.
  void check_integrity(const GroupQueues& queues) const;

 private:
  // The source of a sequence's drafts, and the mean number that will be right. For the draft model,
  // the cost of all its drafts is subtracted.
  struct Choice {
    int asked = 0;  // of the draft model; 0: what was looked up
    double gain = 0;
  };
  // looked_up: becomes what was, or nothing if the draft model is asked.
  Choice choose(const GroupQueues& queues, const SequenceGroup& group, const Sequence& seq,
                int pending, int most, std::vector<int32_t>& looked_up);
  void prepare(const GroupQueues& queues, PlannedStep::Group& scheduled);
  DraftLookup& lookup_of(const SequenceGroup& group, const Sequence& seq);
  bool too_many(const GroupQueues& queues) const;
  void measure_pause(const GroupQueues& queues, double now);
  bool is_worth_a_pause(const GroupQueues& queues, bool in_flight);
  int room_for(const SequenceGroup& group, const Sequence& seq, int spare_blocks) const;
  void append_slots(SequenceChunk& chunk);

  const SpeculationConfig& config_;
  const bool runs_ahead_;
  const int stages_;
  BlockManager& blocks_;
  HitRates rates_;
  RecentTexts recent_;
  std::unordered_map<int64_t, DraftLookup> lookups_;  // by sequence id
  ModelDrafts model_;
  StepTimes times_;
  // For a step that was completed with no other in flight: the time it was scheduled plus the time
  // workers needed. From then until the next step is scheduled is a pause.
  std::optional<double> computed_until_;
  SpeculationStats stats_;
  std::vector<int32_t> said_;
};

}  // namespace tandem
