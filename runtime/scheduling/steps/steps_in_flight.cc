#include "runtime/scheduling/steps/steps_in_flight.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace tandem {

bool SequenceInFlight::ended() const {
  const BeamState* beams = queued->group->beams();
  return queued->dropped || seq->finished() || (beams != nullptr && beams->epoch != epoch);
}

bool StepInFlight::has_drafts() const {
  return std::any_of(seqs.begin(), seqs.end(), [](const SequenceInFlight& scheduled) {
    return scheduled.has_drafts() && !scheduled.ended();
  });
}

StepInFlight& StepsInFlight::begin(double now) {
  const bool alone = steps_.empty();
  if (spare_.empty()) {
    steps_.emplace_back();
  } else {
    steps_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  StepInFlight& step = steps_.back();
  step.number = next_number_++;
  step.scheduled_at = now;
  step.alone = alone;
  return step;
}

void StepsInFlight::add_group(StepInFlight& step, QueuedGroup& queued) {
  ++queued.steps_in_flight;
  step.groups.push_back(&queued);
}

StepInFlight& StepsInFlight::oldest(uint64_t number) {
  if (steps_.empty())
    throw std::runtime_error("step output: step " + std::to_string(number) + " is not in flight");
  if (number != oldest_number())
    throw std::runtime_error("step output: step " + std::to_string(number) + ", but step " +
                             std::to_string(oldest_number()) + " is the oldest in flight");
  return steps_.front();
}

void StepsInFlight::complete_oldest() {
  StepInFlight& step = steps_.front();
  completed_scheduled_at_ = step.scheduled_at;
  for (QueuedGroup* queued : step.groups) --queued->steps_in_flight;
  step.groups.clear();
  step.seqs.clear();
  spare_.push_back(std::move(step));
  steps_.pop_front();
}

std::vector<std::string> StepsInFlight::request_ids() const {
  std::vector<std::string> ids;
  for (const StepInFlight& step : steps_)
    for (const QueuedGroup* queued : step.groups) ids.push_back(queued->group->request_id());
  return ids;
}

void StepsInFlight::check_integrity(const GroupQueues& queues) const {
  std::unordered_map<const QueuedGroup*, int> steps;
  std::unordered_map<const Sequence*, int> pending;
  uint64_t number = next_number_ - steps_.size();
  for (const StepInFlight& step : steps_) {
    TANDEM_CHECK(!step.has_drafts() || &step == &steps_.back(), "a step runs ahead of drafts");
    TANDEM_CHECK_EQ(step.number, number++);
    for (const QueuedGroup* queued : step.groups) ++steps[queued];
    std::unordered_set<int64_t> seen;
    for (const SequenceInFlight& scheduled : step.seqs) {
      TANDEM_CHECK(seen.insert(scheduled.seq->seq_id()).second, "twice in a step");
      const SequenceGroup& group = *scheduled.queued->group;
      TANDEM_CHECK(group.find(scheduled.seq->seq_id()) == scheduled.seq);
      TANDEM_CHECK(steps.count(scheduled.queued) > 0);
      TANDEM_CHECK(!scheduled.has_drafts() || scheduled.samples);
      if (!scheduled.samples || scheduled.ended() || group.pools()) continue;
      if (group.beams() == nullptr) ++pending[scheduled.seq];
      if (group.searches_ahead() && scheduled.seq == group.seqs().front().get())
        for (const auto& beam : group.seqs()) ++pending[beam.get()];
    }
  }
  const auto check = [&](const QueuedGroup& queued) {
    const auto it = steps.find(&queued);
    TANDEM_CHECK_EQ(queued.steps_in_flight, it == steps.end() ? 0 : it->second);
    if (it != steps.end()) steps.erase(it);
    if (queued.dropped) return;
    for (const auto& seq : queued.group->seqs()) {
      const auto of = pending.find(seq.get());
      TANDEM_CHECK_EQ(seq->num_pending_tokens(), of == pending.end() ? 0 : of->second);
    }
  };
  for (const auto& [id, queued] : queues.all()) check(*queued);
  for (const auto& queued : queues.dropped()) check(*queued);
  TANDEM_CHECK(steps.empty(), "a step refers to a group that is not held");
}

}  // namespace tandem
