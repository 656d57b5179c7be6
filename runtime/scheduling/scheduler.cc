#include "runtime/scheduling/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/sampling/token_choice.h"
#include "runtime/sampling/whole_prompt.h"
#include "runtime/scheduling/admissibility.h"

namespace tandem {

using Queue = QueuedGroup::Queue;

namespace {

bool only_decodes(const PlannedStep& planned) {
  if (!planned.swap_out.empty() || !planned.swap_in.empty() || !planned.takes.empty()) return false;
  const auto& groups = planned.groups();
  return std::none_of(groups.begin(), groups.end(), [](const PlannedStep::Group& group) {
    return group.in_full || group.compute_encoder || group.queued->group->pools() ||
           std::any_of(group.chunks.begin(), group.chunks.end(),
                       [](const SequenceChunk& chunk) { return chunk.tokens != 1; });
  });
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      blocks_(config.block_size, config.num_device_blocks, config.num_host_blocks,
              /*watermark=*/0.01, {config.enable_encoder_cache, config.enable_prefix_caching}),
      beams_(blocks_),
      encoders_(config_, blocks_),
      planner_(config_, queues_, blocks_, beams_, steps_, encoders_),
      speculator_(config_, blocks_),
      writer_(blocks_.tables()),
      planned_(config.max_num_seqs),
      answers_(queues_) {
  TANDEM_CHECK_GT(config.max_num_seqs, 0);
  TANDEM_CHECK_GT(config.max_num_batched_tokens, 0);
  TANDEM_CHECK_GT(config.max_steps_in_flight, 0);
  TANDEM_CHECK_GT(config.stages, 0);
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
  const auto prompt = static_cast<size_t>(group->seqs().front()->prompt_len());
  if (attends_to_whole_prompt(config_.whole_prompts, group->params(), prompt))
    group->take_prompt_whole();
  queues_.add(std::move(group));
}

bool Scheduler::abort_seq_group(const std::string& request_id) {
  QueuedGroup* const queued = queues_.find(request_id);
  if (queued == nullptr) return false;
  drop(*queued);
  return true;
}

void Scheduler::finish_sequence(const std::string& request_id, int64_t seq_id,
                                SequenceStatus status) {
  TANDEM_CHECK(is_finished(status));
  QueuedGroup* const queued = queues_.find(request_id);
  if (queued == nullptr) return;
  Sequence* const seq = queued->group->find(seq_id);
  if (seq == nullptr || seq->finished()) return;
  if (queued->group->beams() == nullptr) return finish(*queued, *seq, status);
  for (const auto& beam : queued->group->seqs()) finish(*queued, *beam, status);
}

void Scheduler::free_finished_seq_groups() {
  while (!queues_.finished().empty()) drop(*queues_.finished().back());
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

void Scheduler::schedule(double now, proto::StepInput& message) {
  TANDEM_CHECK(steps_.size() < config_.most_in_flight(), "the oldest step was not completed");
  end_searches(now);
  if (speculator_.enabled() && speculator_.waits(queues_, steps_, now)) return;
  planned_.begin(now, config_.max_num_batched_tokens);
  planner_.plan(planned_);
  if (speculator_.enabled()) speculator_.add_drafts(queues_, planned_);
  if (writer_.write(planned_, message)) message.set_step(launch());
  planned_.end();
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

uint64_t Scheduler::launch() {
  StepInFlight& step = steps_.begin(planned_.now);
  step.only_decodes = only_decodes(planned_);
  step.groups.reserve(planned_.groups().size());
  step.seqs.reserve(planned_.groups().size());
  for (const bool in_full : {true, false})  // as in the message
    for (PlannedStep::Group& group : planned_.groups())
      if (group.in_full == in_full) launch(group, step);
  return step.number;
}

void Scheduler::launch(PlannedStep::Group& scheduled, StepInFlight& step) {
  QueuedGroup& queued = *scheduled.queued;
  SequenceGroup& group = *queued.group;
  const BeamState* beams = group.beams();
  StepsInFlight::add_group(step, queued);
  if (scheduled.compute_encoder) group.set_encoder_computed(true);
  if (group.pools_encoder())
    step.seqs.push_back({&queued, group.seqs()[0].get(), /*samples=*/true});
  for (SequenceChunk& chunk : scheduled.chunks) {
    const bool samples = chunk.tokens == chunk.seq->num_uncomputed_tokens();
    step.seqs.push_back({&queued, chunk.seq, samples, beams != nullptr ? beams->epoch : 0,
                         std::move(chunk.drafts), chunk.asked_drafts});
    const int from = chunk.seq->num_computed_tokens();
    chunk.seq->advance(chunk.tokens);
    cache_blocks(group, *chunk.seq, from);
    if (samples && beams == nullptr) chunk.seq->add_pending();
    if (samples && group.searches_ahead()) BeamSearchDriver::launch(group, *chunk.seq);
  }
}

// The sequence's computed and known tokens were `from` or fewer; blocks that have filled up since
// are cached. Of beams that are searched ahead, only the prompt's: what their blocks are filled
// with later is known when others may have them.
void Scheduler::cache_blocks(const SequenceGroup& group, const Sequence& seq, int from) {
  if (!config_.enable_prefix_caching || (group.searches_ahead() && group.launched())) return;
  const int size = config_.block_size;
  const int known = std::min(seq.num_computed_tokens(), seq.num_known_tokens());
  if (known / size > from / size) blocks_.cache_full_blocks(group, seq);
}

// --- Completion ----------------------------------------------------------------------------------

void Scheduler::complete_step(const proto::StepOutput& output) {
  StepInFlight& step = steps_.oldest(output.step());
  answers_.read(step, output);
  speculator_.measure(step, output);
  take_answers(step);
}

void Scheduler::complete_encoders(int rank, const proto::StepOutput& output, double now) {
  for (QueuedGroup* queued : encoders_.complete(rank, output, now))
    finish(*queued, *queued->group->seqs().front(), SequenceStatus::kFinishedStopped);
}

// Sequences advanced when the step was scheduled: its pending tokens become known ones.
void Scheduler::take_answers(StepInFlight& step) {
  const auto rounds = BeamSearchDriver::choose_rounds(step, answers_);  // the last that throws
  for (size_t i = 0; i < step.seqs.size(); ++i)
    if (answers_.of(i).given) take_answer(step.seqs[i], answers_.of(i));
  for (QueuedGroup* queued : step.groups)
    if (!queued->dropped && queued->group->beams() != nullptr && !queued->group->finished() &&
        beams_.advance(*queued->group))
      finish_search(*queued);
  for (const auto& round : rounds)
    if (beams_.finish_round(round)) finish_search(*round.queued);
  steps_.complete_oldest();
  queues_.forget_dropped();
}

void Scheduler::take_answer(const SequenceInFlight& scheduled, const StepAnswers::Answer& answer) {
  const SequenceGroup& group = *scheduled.queued->group;
  Sequence& seq = *scheduled.seq;
  if (group.pools()) return finish(*scheduled.queued, seq, SequenceStatus::kFinishedStopped);
  if (answer.candidates != nullptr) return BeamSearchDriver::collect(scheduled, *answer.candidates);
  const int from = seq.num_known_tokens();
  seq.resolve_pending(answer.token);
  // Of a group that has been preempted since, to be recomputed, nothing is computed.
  const bool computed = scheduled.queued->queue != Queue::kWaiting;
  for (const int32_t token : answer.more)
    computed ? seq.go_on_behind_draft(token) : seq.append_token(token);
  if (scheduled.has_drafts()) speculator_.count(scheduled, answer.drafts, answer.more.size());
  cache_blocks(group, seq, from);
}

// --- Ends ----------------------------------------------------------------------------------------

void Scheduler::finish(QueuedGroup& queued, Sequence& seq, SequenceStatus status) {
  seq.set_status(status);
  seq.drop_pending();
  speculator_.forget(*queued.group, seq);
  blocks_.free(seq);
  if (queues_.sequence_finished(queued)) return encoders_.forget(queued);
  if (queued.known_to_workers && queued.group->beams() == nullptr)
    writer_.forget_sequence(seq.seq_id());
}

void Scheduler::finish_search(QueuedGroup& queued) {
  for (const auto& beam : queued.group->seqs())
    finish(queued, *beam, SequenceStatus::kFinishedStopped);
}

void Scheduler::drop(QueuedGroup& queued) {
  for (const auto& seq : queued.group->seqs()) speculator_.forget(*queued.group, *seq);
  encoders_.forget(queued);
  blocks_.free_all(*queued.group);
  if (queued.known_to_workers) writer_.forget_group(queued.group->request_id());
  queues_.drop(queued);
}

// --- Integrity -----------------------------------------------------------------------------------

void Scheduler::check_group(const QueuedGroup& queued) const {
  const SequenceGroup& group = *queued.group;
  const BlockTables& tables = blocks_.tables();
  const bool holds_blocks = !group.pools_encoder() &&
                            (queued.queue == Queue::kRunning || queued.queue == Queue::kSwapped);
  if (queued.queue != Queue::kFinished) {
    TANDEM_CHECK_EQ(tables.has_cross(group), holds_blocks);
    TANDEM_CHECK_EQ(tables.on_host(group), queued.queue == Queue::kSwapped);
    TANDEM_CHECK(queued.queue != Queue::kSwapped || !group.pools_encoder());
    TANDEM_CHECK(queued.queue != Queue::kRunning || !group.pools_encoder() ||
                 group.awaits_encoder() || queued.steps_in_flight == 1);
    TANDEM_CHECK(queued.queue != Queue::kWaiting || !group.encoder_computed());
  }
  for (const auto& seq : group.seqs()) {
    TANDEM_CHECK_EQ(tables.has_self(*seq), !seq->finished() && holds_blocks);
    if (seq->finished()) continue;
    TANDEM_CHECK(holds_blocks || seq->num_computed_tokens() == 0);
    TANDEM_CHECK_LE(seq->output_len(), group.params().max_tokens());
    TANDEM_CHECK(!holds_blocks || !group.announced() || !group.has_whole_prompt() ||
                     group.waits_for_fork(*seq) ||
                     seq->output_len() >= group.params().max_tokens() ||
                     seq->num_computed_tokens() >= seq->prompt_len(),
                 "a part of a whole prompt");
    // Only a sequence with nothing else to compute samples.
    TANDEM_CHECK(!holds_blocks || seq->num_pending_tokens() == 0 ||
                 seq->num_uncomputed_tokens() == 1);
    if (holds_blocks)
      TANDEM_CHECK_LE(blocks_.blocks_for(seq->num_computed_tokens()),
                      static_cast<int>(tables.self(*seq).size()));
  }
  TANDEM_CHECK_EQ(queued.planned_index, -1);
  if (group.beams() != nullptr) beams_.check_integrity(group);
}

void Scheduler::check_integrity() const {
  blocks_.check_integrity();
  queues_.check_integrity();
  for (const auto& [id, queued] : queues_.all()) check_group(*queued);
  TANDEM_CHECK(queues_.num_running_seqs() <= config_.max_num_seqs);
  TANDEM_CHECK(planned_.groups().empty());
  TANDEM_CHECK_LE(steps_.size(), config_.most_in_flight());
  steps_.check_integrity(queues_);
  encoders_.check_integrity(queues_);
  speculator_.check_integrity(queues_);
}

}  // namespace tandem
