// All groups of a scheduler, each in exactly one queue, or dropped while steps in flight refer to
// it. Waiting groups hold no blocks, running ones hold device blocks, swapped ones host blocks,
// finished ones their cross blocks. Groups do not move in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/scheduling/sequence.h"

namespace tandem {

// A group with its place in the scheduler.
struct QueuedGroup {
  enum class Queue : uint8_t { kWaiting, kRunning, kSwapped, kFinished };

  std::unique_ptr<SequenceGroup> group;
  uint64_t ticket = 0;  // order of arrival, among equals
  Queue queue = Queue::kWaiting;
  bool known_to_workers = false;
  bool dropped = false;     // it is in no queue: steps in flight refer to it
  int steps_in_flight = 0;  // those that it is in
  uint64_t last_step = 0;   // the number of the latest of them
  int planned_index = -1;   // into PlannedStep::groups(), while a step is being scheduled
};

class GroupQueues {
 public:
  using Queue = QueuedGroup::Queue;

  // A new group, which waits. Its request id and sequence ids are not in use.
  QueuedGroup& add(std::unique_ptr<SequenceGroup> group);
  QueuedGroup* find(const std::string& request_id) const;  // null if there is none
  // Its unfinished sequences get the status of the queue.
  void move_to(QueuedGroup& queued, Queue queue);
  // A sequence of it has just been finished. True if it was the last one: the group is finished
  // too.
  bool sequence_finished(QueuedGroup& queued);
  // Out of its queue; its ids are free. Kept until no step in flight refers to it.
  void drop(QueuedGroup& queued);
  // Those dropped that no step in flight refers to any more.
  void forget_dropped();

  // In order of (priority, arrival, order of adding).
  QueuedGroup* first_waiting() const { return waiting_.empty() ? nullptr : *waiting_.begin(); }
  QueuedGroup* first_swapped() const { return swapped_.empty() ? nullptr : *swapped_.begin(); }
  const std::vector<QueuedGroup*>& running() const { return running_; }
  const std::vector<QueuedGroup*>& finished() const { return finished_; }  // in any order
  int num_waiting() const { return static_cast<int>(waiting_.size()); }
  int num_swapped() const { return static_cast<int>(swapped_.size()); }
  int num_running_seqs() const { return num_running_seqs_; }  // unfinished ones

  // All that are not dropped, and all that are.
  const std::unordered_map<std::string, std::unique_ptr<QueuedGroup>>& all() const {
    return groups_;
  }
  const std::vector<std::unique_ptr<QueuedGroup>>& dropped() const { return dropped_; }
  // Queues, statuses and counts agree.
  void check_integrity() const;

 private:
  struct Before {
    bool operator()(const QueuedGroup* a, const QueuedGroup* b) const;
  };
  using Ordered = std::set<QueuedGroup*, Before>;

  void leave(QueuedGroup& queued);
  void enter(QueuedGroup& queued, Queue queue);

  std::unordered_map<std::string, std::unique_ptr<QueuedGroup>> groups_;
  std::vector<std::unique_ptr<QueuedGroup>> dropped_;
  std::unordered_set<int64_t> seq_ids_;
  Ordered waiting_, swapped_;
  std::vector<QueuedGroup*> running_;  // in order
  std::vector<QueuedGroup*> finished_;
  int num_running_seqs_ = 0;
  uint64_t next_ticket_ = 0;
};

}  // namespace tandem
