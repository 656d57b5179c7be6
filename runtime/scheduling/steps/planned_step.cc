#include "runtime/scheduling/steps/planned_step.h"

#include <utility>

#include "base/check.h"

namespace tandem {

void PlannedStep::begin(double time, int tokens) {
  TANDEM_CHECK(groups_.empty(), "a step is being scheduled");
  now = time;
  budget = tokens;
  num_seqs = 0;
  preempting = room = true;
}

void PlannedStep::end() {
  for (Group& group : groups_) {
    group.queued->planned_index = -1;
    if (spare_.size() == most_spare_) continue;
    group.chunks.clear();
    spare_.push_back(std::move(group.chunks));
  }
  groups_.clear();
  for (BlockPairs* pairs : {&swap_out, &swap_in, &copy}) pairs->clear();
  takes.clear();
}

PlannedStep::Group& PlannedStep::put(QueuedGroup& queued) {
  if (queued.planned_index < 0) {
    queued.planned_index = static_cast<int>(groups_.size());
    SequenceGroup& group = *queued.group;
    groups_.push_back({&queued, !group.announced()});
    if (!group.first_scheduled_time) group.first_scheduled_time = now;
  }
  return of(queued);
}

std::vector<SequenceChunk> PlannedStep::take_spare() {
  if (spare_.empty()) return {};
  std::vector<SequenceChunk> chunks = std::move(spare_.back());
  spare_.pop_back();
  return chunks;
}

}  // namespace tandem
