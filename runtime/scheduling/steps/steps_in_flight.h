// The ledger of steps that are scheduled and not completed (docs/scheduling.md §7): who is in them,
// and who has to be answered for.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/queued_group.h"

namespace tandem {

// A sequence in a step in flight, as long as the step is.
struct SequenceInFlight {
  QueuedGroup* queued;
  Sequence* seq;
  bool samples;   // the chunk ends at the sequence's last token, or the encoder's output is pooled
  int epoch = 0;  // BeamState's
  std::vector<int32_t> drafts = {};  // that are verified: more tokens may come, at most so many
  int asked_drafts = 0;              // or so many that the worker makes, and says

  bool has_drafts() const { return asked_drafts > 0 || !drafts.empty(); }
  bool ended() const;  // the answer does not matter any more
};

struct StepInFlight {
  uint64_t number = 0;
  double scheduled_at = 0;
  bool alone = false;         // no other step was in flight when it was scheduled
  bool only_decodes = false;  // a token of each sequence, and drafts: no encoder, prompt or copy
  std::vector<QueuedGroup*> groups = {};
  std::vector<SequenceInFlight> seqs = {};  // in the order of the message; ids are unique

  bool has_drafts() const;
};

class StepsInFlight {
 public:
  // The next step. Its groups and sequences are the caller's to add (add_group()).
  StepInFlight& begin(double now);
  static void add_group(StepInFlight& step, QueuedGroup& queued);
  // The oldest step. Throws std::runtime_error if it has another number, or there is none.
  StepInFlight& oldest(uint64_t number);
  // Removes it.
  void complete_oldest();

  int size() const { return static_cast<int>(steps_.size()); }
  // Some sequence may have got more tokens than are pending.
  bool has_drafts() const { return !steps_.empty() && steps_.back().has_drafts(); }
  // The oldest one's number; 0: there is none.
  uint64_t oldest_number() const { return steps_.empty() ? 0 : steps_.front().number; }
  // When the step that was completed last was scheduled.
  double completed_scheduled_at() const { return completed_scheduled_at_; }
  // Of all groups in all steps, oldest step first; one may be there several times.
  std::vector<std::string> request_ids() const;

  // Numbers ascend by one, and every pending token has one step that samples it.
  void check_integrity(const GroupQueues& queues) const;

 private:
  std::deque<StepInFlight> steps_;  // oldest first
  std::vector<StepInFlight> spare_;
  uint64_t next_number_ = 1;
  double completed_scheduled_at_ = 0;
};

}  // namespace tandem
