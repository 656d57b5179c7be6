#include "runtime/scheduling/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/sampling/token_choice.h"
#include "runtime/scheduling/admissibility.h"

namespace tandem {

using Queue = QueuedGroup::Queue;

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      blocks_(config.block_size, config.num_device_blocks, config.num_host_blocks,
              /*watermark=*/0.01, {config.enable_encoder_cache, config.enable_prefix_caching}),
      preemptor_(config_, queues_, blocks_),
      beams_(blocks_),
      planner_(config_, queues_, blocks_, beams_, preemptor_),
      speculator_(config_, blocks_),
      writer_(blocks_.tables()),
      ends_(queues_, blocks_, speculator_, writer_),
      draft_(config.max_num_seqs),
      flight_(config_, queues_, blocks_, beams_, speculator_, ends_) {
  TANDEM_CHECK_GT(config.max_num_seqs, 0);
  TANDEM_CHECK_GT(config.max_num_batched_tokens, 0);
  TANDEM_CHECK_GT(config.max_steps_in_flight, 0);
}

// --- Groups that come and go ---------------------------------------------------------------------

void Scheduler::check_admissible(const SequenceGroup& group) const {
  tandem::check_admissible(group, config_);
}

void Scheduler::add_seq_group(std::unique_ptr<SequenceGroup> group) {
  TANDEM_CHECK(group != nullptr);
  check_admissible(*group);
  if (BeamState* beams = group->beams())
    beams->ahead =
        config_.beam_vocabulary > 0 && searches_ahead(group->params(), config_.beam_vocabulary);
  queues_.add(std::move(group));
}

bool Scheduler::abort_seq_group(const std::string& request_id) {
  QueuedGroup* const queued = queues_.find(request_id);
  if (queued == nullptr) return false;
  ends_.drop(*queued);
  return true;
}

void Scheduler::finish_sequence(const std::string& request_id, int64_t seq_id,
                                SequenceStatus status) {
  TANDEM_CHECK(is_finished(status));
  QueuedGroup* const queued = queues_.find(request_id);
  if (queued == nullptr) return;
  Sequence* const seq = queued->group->find(seq_id);
  if (seq == nullptr || seq->finished()) return;
  if (queued->group->beams() == nullptr) return ends_.finish(*queued, *seq, status);
  for (const auto& beam : queued->group->seqs()) ends_.finish(*queued, *beam, status);
}

void Scheduler::free_finished_seq_groups() {
  while (!queues_.finished().empty()) ends_.drop(*queues_.finished().back());
}

bool Scheduler::has_unfinished() const {
  return num_waiting() > 0 || num_running() > 0 || num_swapped() > 0;
}

SequenceGroup* Scheduler::find(const std::string& request_id) {
  QueuedGroup* const queued = queues_.find(request_id);
  return queued == nullptr ? nullptr : queued->group.get();
}

// --- Scheduling ----------------------------------------------------------------------------------

proto::StepInput Scheduler::schedule(double now) {
  proto::StepInput message;
  schedule(now, message);
  return message;
}

void Scheduler::end_searches(double now) {
  for (const QueuedGroup* queued : queues_.running()) {
    SequenceGroup& group = *queued->group;
    if (group.beams() == nullptr || !group.params().has_max_time() || !group.first_scheduled_time)
      continue;
    if (now - *group.first_scheduled_time > group.params().max_time())
      group.beams()->search.end_with_next_round();
  }
}

void Scheduler::schedule(double now, proto::StepInput& message) {
  TANDEM_CHECK(steps_in_flight().size() < config_.max_steps_in_flight,
               "the oldest step was not completed");
  end_searches(now);
  if (speculator_.enabled() && speculator_.waits(queues_, steps_in_flight(), now)) return;
  draft_.begin(now, config_.max_num_batched_tokens);
  planner_.plan(draft_);
  if (speculator_.enabled()) speculator_.add_drafts(queues_, draft_);
  if (writer_.write(draft_, message)) message.set_step(flight_.take_off(draft_));
  draft_.end();
}

// --- Completion ----------------------------------------------------------------------------------

void Scheduler::complete_step(uint64_t step, const std::vector<SampledToken>& sampled) {
  flight_.land(step, sampled);
}

void Scheduler::complete_step(const proto::StepOutput& output) {
  flight_.land(output.step(), output);
}

// --- Integrity -----------------------------------------------------------------------------------

void Scheduler::check_group(const QueuedGroup& queued) const {
  const SequenceGroup& group = *queued.group;
  const BlockTables& tables = blocks_.tables();
  const bool holds_blocks =
      !group.pools() && (queued.queue == Queue::kRunning || queued.queue == Queue::kSwapped);
  if (queued.queue != Queue::kFinished) {
    TANDEM_CHECK_EQ(tables.has_cross(group), holds_blocks);
    TANDEM_CHECK_EQ(tables.on_host(group), queued.queue == Queue::kSwapped);
    TANDEM_CHECK(queued.queue != Queue::kSwapped || !group.pools());
    TANDEM_CHECK(queued.queue != Queue::kRunning || !group.pools() || queued.steps_in_flight == 1);
    TANDEM_CHECK(queued.queue != Queue::kWaiting || !group.encoder_computed());
  }
  for (const auto& seq : group.seqs()) {
    TANDEM_CHECK_EQ(tables.has_self(*seq), !seq->finished() && holds_blocks);
    if (seq->finished()) continue;
    TANDEM_CHECK(holds_blocks || seq->num_computed_tokens() == 0);
    TANDEM_CHECK_LE(seq->output_len(), group.params().max_tokens());
    // Only a sequence with nothing else to compute samples.
    TANDEM_CHECK(!holds_blocks || seq->num_pending_tokens() == 0 ||
                 seq->num_uncomputed_tokens() == 1);
    if (holds_blocks)
      TANDEM_CHECK_LE(blocks_.blocks_for(seq->num_computed_tokens()),
                      static_cast<int>(tables.self(*seq).size()));
  }
  TANDEM_CHECK_EQ(queued.draft_index, -1);
  if (group.beams() != nullptr) beams_.check_integrity(group);
}

void Scheduler::check_integrity() const {
  blocks_.check_integrity();
  queues_.check_integrity();
  for (const auto& [id, queued] : queues_.all()) check_group(*queued);
  TANDEM_CHECK(queues_.num_running_seqs() <= config_.max_num_seqs);
  TANDEM_CHECK(draft_.groups().empty());
  TANDEM_CHECK_LE(steps_in_flight().size(), config_.max_steps_in_flight);
  steps_in_flight().check_integrity(queues_);
  speculator_.check_integrity(queues_);
}

}  // namespace tandem
