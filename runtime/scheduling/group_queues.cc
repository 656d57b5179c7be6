#include "runtime/scheduling/group_queues.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem {

bool GroupQueues::Before::operator()(const QueuedGroup* a, const QueuedGroup* b) const {
  const SequenceGroup& x = *a->group;
  const SequenceGroup& y = *b->group;
  return std::make_tuple(x.priority(), x.arrival_time(), a->ticket) <
         std::make_tuple(y.priority(), y.arrival_time(), b->ticket);
}

QueuedGroup& GroupQueues::add(std::unique_ptr<SequenceGroup> group) {
  TANDEM_CHECK(!std::isnan(group->arrival_time()));
  if (groups_.count(group->request_id()) > 0)
    throw invalid_request("request_id", "\"" + group->request_id() + "\" is in use");
  for (const auto& seq : group->seqs()) {
    TANDEM_CHECK(!seq->finished(), "a new group has no finished sequences");
    TANDEM_CHECK_EQ(seq->num_pending_tokens(), 0);
    TANDEM_CHECK(seq_ids_.insert(seq->seq_id()).second, "sequence ids are unique");
  }
  auto& slot = groups_[group->request_id()];
  slot = std::make_unique<QueuedGroup>();
  slot->group = std::move(group);
  slot->ticket = next_ticket_++;
  enter(*slot, Queue::kWaiting);
  return *slot;
}

QueuedGroup* GroupQueues::find(const std::string& request_id) const {
  const auto it = groups_.find(request_id);
  return it == groups_.end() ? nullptr : it->second.get();
}

void GroupQueues::move_to(QueuedGroup& queued, Queue queue) {
  leave(queued);
  enter(queued, queue);
}

bool GroupQueues::sequence_finished(QueuedGroup& queued) {
  if (queued.queue == Queue::kRunning) --num_running_seqs_;
  if (!queued.group->finished()) return false;
  move_to(queued, Queue::kFinished);
  return true;
}

void GroupQueues::drop(QueuedGroup& queued) {
  leave(queued);
  for (const auto& seq : queued.group->seqs()) seq_ids_.erase(seq->seq_id());
  queued.dropped = true;
  const auto it = groups_.find(queued.group->request_id());
  if (queued.steps_in_flight > 0) dropped_.push_back(std::move(it->second));
  groups_.erase(it);
}

void GroupQueues::forget_dropped() {
  std::erase_if(dropped_, [](const auto& queued) { return queued->steps_in_flight == 0; });
}

void GroupQueues::leave(QueuedGroup& queued) {
  switch (queued.queue) {
    case Queue::kWaiting: waiting_.erase(&queued); break;
    case Queue::kSwapped: swapped_.erase(&queued); break;
    case Queue::kFinished: {
      const auto it = std::find(finished_.rbegin(), finished_.rend(), &queued);
      TANDEM_CHECK(it != finished_.rend());
      finished_.erase(std::next(it).base());
      break;
    }
    case Queue::kRunning: {
      const auto it = std::lower_bound(running_.begin(), running_.end(), &queued, Before());
      TANDEM_CHECK(it != running_.end() && *it == &queued);
      running_.erase(it);
      for (const auto& seq : queued.group->seqs()) num_running_seqs_ -= !seq->finished();
      break;
    }
  }
}

void GroupQueues::enter(QueuedGroup& queued, Queue queue) {
  queued.queue = queue;
  SequenceStatus status = SequenceStatus::kWaiting;
  switch (queue) {
    case Queue::kWaiting: waiting_.insert(&queued); break;
    case Queue::kSwapped:
      swapped_.insert(&queued);
      status = SequenceStatus::kSwapped;
      break;
    case Queue::kFinished: finished_.push_back(&queued); return;
    case Queue::kRunning:
      running_.insert(std::upper_bound(running_.begin(), running_.end(), &queued, Before()),
                      &queued);
      for (const auto& seq : queued.group->seqs()) num_running_seqs_ += !seq->finished();
      status = SequenceStatus::kRunning;
      break;
  }
  for (const auto& seq : queued.group->seqs())
    if (!seq->finished()) seq->set_status(status);
}

void GroupQueues::check_integrity() const {
  static constexpr SequenceStatus kStatus[] = {SequenceStatus::kWaiting, SequenceStatus::kRunning,
                                               SequenceStatus::kSwapped};
  int running_seqs = 0;
  for (const auto& [id, queued] : groups_) {
    const SequenceGroup& group = *queued->group;
    TANDEM_CHECK_EQ(id, group.request_id());
    TANDEM_CHECK(!queued->dropped);
    TANDEM_CHECK_EQ(group.finished(), queued->queue == Queue::kFinished);
    for (const auto& seq : group.seqs()) {
      TANDEM_CHECK(seq_ids_.count(seq->seq_id()) == 1);
      if (seq->finished()) continue;
      TANDEM_CHECK(seq->status() == kStatus[static_cast<size_t>(queued->queue)]);
      running_seqs += queued->queue == Queue::kRunning;
    }
  }
  for (const auto& queued : dropped_) {
    TANDEM_CHECK(queued->dropped);
    TANDEM_CHECK_GT(queued->steps_in_flight, 0);
  }
  TANDEM_CHECK_EQ(running_seqs, num_running_seqs_);
  TANDEM_CHECK_EQ(groups_.size(),
                  waiting_.size() + running_.size() + swapped_.size() + finished_.size());
  for (const QueuedGroup* queued : waiting_) TANDEM_CHECK(queued->queue == Queue::kWaiting);
  for (const QueuedGroup* queued : swapped_) TANDEM_CHECK(queued->queue == Queue::kSwapped);
  for (const QueuedGroup* queued : finished_) TANDEM_CHECK(queued->queue == Queue::kFinished);
  for (const QueuedGroup* queued : running_) TANDEM_CHECK(queued->queue == Queue::kRunning);
  TANDEM_CHECK(std::is_sorted(running_.begin(), running_.end(), Before()));
}

}  // namespace tandem
