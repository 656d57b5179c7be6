// A step from end to end: receive → schedule → forward → process. Each stage has a page of its own:
//
// receive: on_command() below. Requests come and go in queues (runtime/scheduling/group_queues.h).
// schedule: Scheduler::schedule() plans, drafts and writes (runtime/scheduling/scheduler.cc).
// forward: ModelRunner::launch() and finish() on every rank
// (runtime/execution/host_model_runner.cc, runtime/execution/device/device_model_runner.cc).
// process: on_output() below and Scheduler::complete_step(). Tokens become known, sequences end.
#include "runtime/engine/step_loop.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/engine/step_output_checks.h"
#include "runtime/request/request_error.h"
#include "runtime/sampling/stop_rules.h"

namespace tandem {

namespace {

constexpr SpanKind kSchedule{"schedule", "engine", {"running", "waiting"}};
constexpr SpanKind kCommit{"commit", "engine", {"groups"}};

ProfileGroup* profile_of_scheduler() {
  Profile* const profile = process_profile();
  return profile == nullptr ? nullptr : profile->add_group("scheduler", 1, {"scheduler"});
}

// That workers compute: of encoders, of decoders' chunks, and drafts.
int64_t num_tokens(const proto::StepInput& step) {
  int64_t out = 0;
  const auto encoder_of = [](const proto::SequenceGroupMetadata& group) {
    const proto::SequenceData& data = group.encoder_seq_data();
    return int64_t{data.encoder_length() > 0 ? data.encoder_length()
                                             : data.prompt_token_ids_size()};
  };
  for (const proto::SequenceGroupMetadata& group : step.groups()) {
    if (group.compute_encoder()) out += encoder_of(group);
    for (const proto::SequenceData& data : group.seq_data()) out += data.token_chunk_size();
  }
  for (const proto::SequenceGroupDelta& delta : step.deltas())
    for (const proto::SequenceDelta& seq : delta.seqs())
      out += seq.token_chunk_size() + seq.draft_token_ids_size() + seq.num_drafts();
  return out;
}

SchedulerConfig with_vocabulary(SchedulerConfig config, int vocab_size) {
  config.speculation.vocabulary = vocab_size;
  return config;
}

}  // namespace

StepLoop::StepLoop(const SchedulerConfig& config, int vocab_size)
    : config_(with_vocabulary(config, vocab_size)),
      vocab_size_(vocab_size),
      profile_(profile_of_scheduler()),
      scheduler_(config_),
      stage_seconds_(config_.stages > 1 ? static_cast<size_t>(config_.stages) : 0) {}

// With everything on one thread. In a server messages lie between the stages: SchedulerActor calls
// on_command(), next_step() and on_output(), and WorkerActor the runner of each rank.
std::optional<proto::StepOutput> StepLoop::turn(StepRunner& runner,
                                                const std::function<double()>& now) {
  while (const auto step = next_step(now())) runner.launch(*step);
  if (steps_in_flight() == 0) return std::nullopt;
  proto::StepOutput output = runner.finish();
  on_output(output);
  return output;
}

// --- Receive -------------------------------------------------------------------------------------

std::optional<proto::SchedulerEvent> StepLoop::on_command(const proto::SchedulerCommand& command) {
  if (command.has_add()) {
    try {
      add(command.add());
    } catch (const InputError& e) {
      proto::SchedulerEvent event;
      proto::RequestRejected& rejected = *event.mutable_rejected();
      rejected.set_request_id(command.add().request_id());
      rejected.set_seq_id(command.add().first_seq_id());
      *rejected.mutable_error() = to_proto(e);
      return event;
    }
  } else if (command.has_finish_sequence()) {
    finish_sequence(command.finish_sequence().request_id(), command.finish_sequence().seq_id());
  } else if (command.command_case() == proto::SchedulerCommand::kAbortRequestId) {
    abort(command.abort_request_id());
  }
  return std::nullopt;
}

void StepLoop::add(const proto::AddRequest& request) {
  auto group = make_sequence_group(request);
  if (!request.alone() || is_idle()) return scheduler_.add_seq_group(std::move(group));
  scheduler_.check_admissible(*group);
  TANDEM_CHECK(alone_ == nullptr, "two requests that are to run alone");
  alone_ = std::move(group);
}

void StepLoop::abort(const std::string& request_id) {
  if (alone_ && alone_->request_id() == request_id) {
    alone_.reset();
  } else {
    scheduler_.abort_seq_group(request_id);
  }
}

void StepLoop::finish_sequence(const std::string& request_id, int64_t seq_id) {
  scheduler_.finish_sequence(request_id, seq_id, SequenceStatus::kFinishedStopped);
  scheduler_.free_finished_seq_groups();
}

// --- Schedule ------------------------------------------------------------------------------------

std::optional<proto::StepInput> StepLoop::next_step(double now) {
  proto::StepInput step;
  if (!next_step(now, step)) return std::nullopt;
  return step;
}

bool StepLoop::next_step(double now, proto::StepInput& step) {
  if (steps_in_flight() >= config_.most_in_flight()) return false;
  if (alone_) {
    if (!is_idle()) return false;
    scheduler_.add_seq_group(std::move(alone_));
  }
  if (!scheduler_.has_work() || !schedule_step(now, step)) return false;
  if (steps_in_flight() == 1) waiting_since_ = now;
  return true;
}

bool StepLoop::schedule_step(double now, proto::StepInput& step) {
  const ProfiledScope scope(profile_);
  ProfileSpan span(kSchedule);
  scheduler_.schedule(now, step);
  span.say({scheduler_.num_running(), scheduler_.num_waiting()});
  if (!has_work(step)) return false;
  step_tokens_.observe(num_tokens(step));
  if (profile_ != nullptr) profile_->count_step();
  return true;
}

std::optional<int> StepLoop::next_encoder_step(double now, proto::StepInput& step) {
  if (alone_) return std::nullopt;
  const auto rank = scheduler_.schedule_encoders(now, step);
  if (rank) step_tokens_.observe(num_tokens(step));
  return rank;
}

bool StepLoop::is_idle() const {
  return steps_in_flight() == 0 && scheduler_.encoder_steps().steps_in_flight() == 0;
}

bool StepLoop::waits_longer_than(double seconds, double now) const {
  if (steps_in_flight() > 0 && now - waiting_since_ > seconds) return true;
  const auto since = scheduler_.encoder_steps().waiting_since();
  return since && now - *since > seconds;
}

std::vector<std::string> StepLoop::in_flight_request_ids() const {
  std::vector<std::string> ids = scheduler_.steps_in_flight().request_ids();
  for (std::string& id : scheduler_.encoder_steps().request_ids()) ids.push_back(std::move(id));
  return ids;
}

// --- Process -------------------------------------------------------------------------------------

bool StepLoop::on_encoder_output(int rank, const proto::StepOutput& output, double now) {
  const ProfiledScope scope(profile_);
  ProfileSpan span(kCommit);
  span.say({output.outputs_size()});
  check_step_output(output, scheduler_.encoder_steps().oldest_number(rank), vocab_size_,
                    /*stages=*/1);
  scheduler_.complete_encoders(rank, output, now);
  encoder_seconds_ += output.encoder_seconds();
  scheduler_.free_finished_seq_groups();
  return std::any_of(output.outputs().begin(), output.outputs().end(),
                     [](const proto::SequenceGroupOutput& group) { return group.has_embedding(); });
}

void StepLoop::on_output(const proto::StepOutput& output) {
  const ProfiledScope scope(profile_);
  ProfileSpan span(kCommit);
  span.say({output.outputs_size()});
  check_step_output(output, scheduler_.steps_in_flight().oldest_number(), vocab_size_,
                    config_.stages);
  scheduler_.complete_step(output);
  ++steps_completed_;
  encoder_seconds_ += output.encoder_seconds();
  pipeline_seconds_ += output.pipeline_seconds();
  for (int stage = 0; stage < output.stage_seconds_size(); ++stage)
    stage_seconds_[static_cast<size_t>(stage)] += output.stage_seconds(stage);
  for (const auto& group : output.outputs()) {
    if (group.samples().empty()) continue;
    const SequenceGroup* scheduled = scheduler_.find(group.request_id());
    if (scheduled == nullptr) continue;
    for (int i = 0; i < group.samples_size(); ++i) finish_if_ended(*scheduled, group, i);
  }
  scheduler_.free_finished_seq_groups();
}

// By its i-th sample. Behind it there may be more of the same sequence, which then do not count.
void StepLoop::finish_if_ended(const SequenceGroup& scheduled,
                               const proto::SequenceGroupOutput& group, int i) {
  const proto::SequenceOutput& sample = group.samples(i);
  const Sequence* seq = scheduled.find(sample.seq_id());
  if (seq == nullptr || seq->finished() || sample.has_candidates()) return;
  int known = static_cast<int>(seq->output_tokens().size());
  for (int j = i + 1; j < group.samples_size() && group.samples(j).seq_id() == sample.seq_id(); ++j)
    --known;
  const StopDecision decision = check_stop(scheduled.params(), sample.token_id(), known);
  if (decision.status != SequenceStatus::kRunning)
    scheduler_.finish_sequence(group.request_id(), sample.seq_id(), decision.status);
}

// --- What the engine is told ---------------------------------------------------------------------

proto::SchedulerEvent StepLoop::step_event() {
  proto::SchedulerEvent event;
  event.set_scheduled_at(scheduler_.steps_in_flight().completed_scheduled_at());
  for (proto::BeamResult& result : scheduler_.take_beam_results())
    *event.add_beam_results() = std::move(result);
  for (proto::RequestPreempted& preempted : scheduler_.take_preempted())
    *event.add_preempted() = std::move(preempted);
  *event.mutable_stats() = stats();
  return event;
}

proto::SchedulerStats StepLoop::stats() const {
  proto::SchedulerStats out;
  out.set_num_running(scheduler_.num_running());
  out.set_num_waiting(scheduler_.num_waiting());
  out.set_num_swapped(scheduler_.num_swapped());
  out.set_num_preemptions(scheduler_.num_preemptions());
  out.set_num_free_blocks(scheduler_.block_manager().device().num_free());
  out.set_num_total_blocks(scheduler_.block_manager().device().num_total());
  const CacheStats& caches = scheduler_.block_manager().cache_stats();
  out.set_encoder_cache_queries(caches.encoder_queries);
  out.set_encoder_cache_hits(caches.encoder_hits);
  out.set_encoder_cache_hit_tokens(caches.encoder_hit_tokens);
  out.set_prefix_cache_queries(caches.prefix_queries);
  out.set_prefix_cache_hits(caches.prefix_hits);
  out.set_cache_evictions(caches.evicted_blocks);
  out.set_num_idle_blocks(scheduler_.block_manager().device().num_idle());
  out.set_num_cross_blocks(scheduler_.block_manager().tables().num_cross_device_blocks());
  out.set_num_free_host_blocks(scheduler_.block_manager().host().num_free());
  out.set_num_total_host_blocks(scheduler_.block_manager().host().num_total());
  out.set_encoder_seconds(encoder_seconds_);
  out.mutable_stage_seconds()->Add(stage_seconds_.begin(), stage_seconds_.end());
  out.set_pipeline_seconds(pipeline_seconds_);
  const std::vector<double>& encoders = scheduler_.encoder_steps().seconds();
  out.mutable_encoder_rank_seconds()->Add(encoders.begin(), encoders.end());
  out.mutable_step_tokens_buckets()->Add(step_tokens_.counts().begin(),
                                         step_tokens_.counts().end());
  out.set_step_tokens(step_tokens_.sum());
  out.set_block_size(config_.block_size);
  out.set_prefix_caching(config_.enable_prefix_caching);
  out.set_encoder_cache(config_.enable_encoder_cache);
  const SpeculationStats& drafts = scheduler_.speculation_stats();
  out.set_spec_drafts(drafts.drafts);
  out.set_spec_draft_tokens(drafts.draft_tokens);
  out.set_spec_accepted_tokens(drafts.accepted_tokens);
  out.mutable_spec_accepted_tokens_per_position()->Add(drafts.accepted_per_position.begin(),
                                                       drafts.accepted_per_position.end());
  return out;
}

}  // namespace tandem
