// complete_step(): the tokens of the oldest step in flight; and the checks of the whole state.
//
// Sequences were advanced when the step was scheduled (Scheduler::take_off). All that a completed
// step changes is that its pending tokens become known ones. What ended after schedule() is still
// in the step: its tokens are surplus, and passed over.

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

bool has_work(const proto::StepInput& step) {
  return step.groups_size() > 0 || step.deltas_size() > 0 || step.swap_out_size() > 0 ||
         step.swap_in_size() > 0 || step.copy_size() > 0;
}

namespace {

[[noreturn]] void fail(const std::string& request_id, int64_t seq_id, const char* what) {
  throw std::runtime_error("step output: request \"" + request_id + "\", sequence " +
                           std::to_string(seq_id) + ": " + what);
}

}  // namespace

// --- Steps in flight -----------------------------------------------------------------------------

Scheduler::Scheduled* Scheduler::StepInFlight::find(int64_t seq_id) {
  if (by_id.empty()) {
    for (size_t i = cursor; i < seqs.size(); ++i) {
      if (seqs[i].seq->seq_id() != seq_id) continue;
      cursor = i + 1;
      return &seqs[i];
    }
    for (Scheduled& scheduled : seqs) by_id.emplace(scheduled.seq->seq_id(), &scheduled);
  }
  const auto it = by_id.find(seq_id);
  return it == by_id.end() ? nullptr : it->second;
}

bool Scheduler::StepInFlight::gone() const {
  return std::all_of(groups.begin(), groups.end(),
                     [](const Entry* entry) { return entry->dropped; });
}

// The step with that number; those before it have nothing left to wait for.
Scheduler::StepInFlight& Scheduler::oldest_step(uint64_t number) {
  for (StepInFlight& step : steps_) {
    if (step.number == number) {
      step.cursor = 0;
      step.by_id.clear();
      for (Scheduled& scheduled : step.seqs) {
        scheduled.has_token = false;
        scheduled.candidates = nullptr;
        scheduled.moves = nullptr;
      }
      return step;
    }
    if (!step.gone())
      throw std::runtime_error("step output: step " + std::to_string(number) + ", but step " +
                               std::to_string(step.number) + " is the oldest in flight");
  }
  throw std::runtime_error("step output: step " + std::to_string(number) + " is not in flight");
}

// Removes the oldest step, and the dropped groups that only it refers to.
void Scheduler::pop_step() {
  for (Entry* entry : steps_.front().groups) --entry->steps_in_flight;
  std::erase_if(dropped_, [](const auto& entry) { return entry->steps_in_flight == 0; });
  steps_.pop_front();
}

// --- Completion ----------------------------------------------------------------------------------

void Scheduler::complete_step(uint64_t number, const std::vector<SampledToken>& sampled) {
  StepInFlight& step = oldest_step(number);
  for (const auto& [request_id, seq_id, token] : sampled)
    take_token(step, request_id, seq_id, token);
  finish_step(step);
}

void Scheduler::complete_step(const proto::StepOutput& output) {
  StepInFlight& step = oldest_step(output.step());
  for (const proto::SequenceGroupOutput& group : output.outputs()) {
    if (group.has_embedding()) take_embedding(step, group);
    for (const proto::SequenceOutput& sample : group.samples()) {
      if (sample.has_candidates())
        take_candidates(step, group, sample);
      else
        take_token(step, group.request_id(), sample.seq_id(), sample.token_id());
    }
  }
  finish_step(step);
}

// Where an answer belongs; null if its group or sequence has ended meanwhile.
Scheduler::Scheduled* Scheduler::place_of(StepInFlight& step, const std::string& request_id,
                                          int64_t seq_id) {
  Scheduled* const place = step.find(seq_id);
  if (place != nullptr && place->entry->group->request_id() == request_id) {
    if (place->ended()) return nullptr;
    if (!place->samples) fail(request_id, seq_id, "a token, but its prompt is not finished");
    if (place->has_token) fail(request_id, seq_id, "two tokens");
    return place;
  }
  const auto it = groups_.find(request_id);
  if (it == groups_.end() || it->second->queue == Queue::kFinished) return nullptr;
  const Sequence* seq = it->second->group->find(seq_id);
  if (seq == nullptr) fail(request_id, seq_id, "unknown sequence");
  if (!seq->finished()) fail(request_id, seq_id, "a token, but it was not scheduled");
  return nullptr;
}

void Scheduler::take_token(StepInFlight& step, const std::string& request_id, int64_t seq_id,
                           int32_t token) {
  Scheduled* const place = place_of(step, request_id, seq_id);
  if (place == nullptr) return;
  if (place->entry->group->beams() != nullptr)
    fail(request_id, seq_id, "a token, but it is a beam");
  if (place->entry->group->pools())
    fail(request_id, seq_id, "a token, but its encoder's output is to be pooled");
  place->has_token = true;
  place->token = token;
}

// They stay in the message until the step is found to be whole.
void Scheduler::take_candidates(StepInFlight& step, const proto::SequenceGroupOutput& output,
                                const proto::SequenceOutput& sample) {
  const std::string& request_id = output.request_id();
  Scheduled* const place = place_of(step, request_id, sample.seq_id());
  if (place == nullptr) return;
  const auto& params = place->entry->group->params();
  const proto::BeamCandidates& candidates = sample.candidates();
  const int count = candidates.token_ids_size();
  if (place->entry->group->beams() == nullptr)
    fail(request_id, sample.seq_id(), "candidates, but it is not a beam");
  if (count < 1 || count > num_beam_candidates(params))
    fail(request_id, sample.seq_id(), "too few or too many candidates");
  if (candidates.logprobs_size() != count ||
      candidates.perturbed_size() != (params.do_sample() ? count : 0))
    fail(request_id, sample.seq_id(), "candidates of unequal lists");
  if (output.has_moves() && !place->entry->group->searches_ahead())
    fail(request_id, sample.seq_id(), "moves, but workers do not search its beams");
  place->has_token = true;
  place->candidates = &candidates;
  place->moves = output.has_moves() ? &output.moves() : nullptr;
}

void Scheduler::take_embedding(StepInFlight& step, const proto::SequenceGroupOutput& output) {
  Scheduled* const place = place_of(step, output.request_id(), output.seq_id());
  if (place == nullptr) return;
  if (!place->entry->group->pools())
    fail(output.request_id(), output.seq_id(), "a pooled vector, but tokens are generated");
  place->has_token = true;
}

void Scheduler::finish_step(StepInFlight& step) {
  for (const Scheduled& scheduled : step.seqs)
    if (scheduled.samples && !scheduled.has_token && !scheduled.ended())
      fail(scheduled.entry->group->request_id(), scheduled.seq->seq_id(),
           scheduled.entry->group->pools() ? "no pooled vector" : "no token");
  std::vector<Round> rounds = search_ahead(step);  // throws; nothing has changed so far
  for (const Scheduled& scheduled : step.seqs) {
    if (!scheduled.has_token) continue;
    if (scheduled.entry->group->pools()) {
      finish(*scheduled.entry, *scheduled.seq, SequenceStatus::kFinishedStopped);
      continue;
    }
    if (scheduled.candidates == nullptr) {
      const int from = static_cast<int>(scheduled.seq->tokens().size());
      scheduled.seq->resolve_pending(scheduled.token);
      if (config_.enable_prefix_caching)
        cache_blocks(*scheduled.entry->group, *scheduled.seq, from);
      continue;
    }
    BeamState& beams = *scheduled.entry->group->beams();
    if (!beams.ahead)
      beams.candidates[static_cast<size_t>(scheduled.seq->index())] =
          candidates_of(*scheduled.candidates);
  }
  for (Entry* entry : step.groups)
    if (!entry->dropped && entry->group->beams() != nullptr && !entry->group->finished())
      advance_beams(*entry);
  for (Round& round : rounds) finish_round(round);
  while (&steps_.front() != &step) pop_step();
  pop_step();
}

// --- Integrity -----------------------------------------------------------------------------------

void Scheduler::check_entry(const Entry& entry) const {
  const SequenceGroup& group = *entry.group;
  const bool holds_blocks =
      !group.pools() && (entry.queue == Queue::kRunning || entry.queue == Queue::kSwapped);
  TANDEM_CHECK_EQ(group.finished(), entry.queue == Queue::kFinished);
  if (entry.queue != Queue::kFinished) {
    TANDEM_CHECK_EQ(blocks_.has_cross_block_table(group), holds_blocks);
    TANDEM_CHECK_EQ(blocks_.on_host(group), entry.queue == Queue::kSwapped);
    TANDEM_CHECK(entry.queue != Queue::kSwapped || !group.pools());
    TANDEM_CHECK(entry.queue != Queue::kRunning || !group.pools() || entry.steps_in_flight == 1);
    TANDEM_CHECK(entry.queue != Queue::kWaiting || !group.encoder_computed());
  }
  static constexpr SequenceStatus kStatus[] = {SequenceStatus::kWaiting, SequenceStatus::kRunning,
                                               SequenceStatus::kSwapped};
  for (const auto& seq : group.seqs()) {
    TANDEM_CHECK(seq_ids_.count(seq->seq_id()) == 1);
    TANDEM_CHECK_EQ(blocks_.has_block_table(*seq), !seq->finished() && holds_blocks);
    if (seq->finished()) continue;
    TANDEM_CHECK(seq->status() == kStatus[static_cast<size_t>(entry.queue)]);
    TANDEM_CHECK(holds_blocks || seq->num_computed_tokens() == 0);
    TANDEM_CHECK_LE(seq->output_len(), group.params().max_tokens());
    // Only a sequence with nothing else to compute samples.
    TANDEM_CHECK(!holds_blocks || seq->num_pending_tokens() == 0 ||
                 seq->num_uncomputed_tokens() == 1);
    if (holds_blocks)
      TANDEM_CHECK_LE(blocks_.blocks_for(seq->num_computed_tokens()),
                      static_cast<int>(blocks_.get_block_table(*seq).size()));
  }
  TANDEM_CHECK_EQ(entry.step_index, -1);
  if (group.beams() != nullptr) check_beams(entry);
}

// Step numbers, and both sides' counts of what is in flight.
void Scheduler::check_steps() const {
  TANDEM_CHECK(step_groups_.empty());
  TANDEM_CHECK_LE(static_cast<int>(steps_.size()), config_.max_steps_in_flight);
  std::unordered_map<const Entry*, int> steps;
  std::unordered_map<const Sequence*, int> pending;
  uint64_t number = next_step_ - steps_.size();
  for (const StepInFlight& step : steps_) {
    TANDEM_CHECK_EQ(step.number, number++);
    for (const Entry* entry : step.groups) ++steps[entry];
    std::unordered_set<int64_t> seen;
    for (const Scheduled& scheduled : step.seqs) {
      TANDEM_CHECK(seen.insert(scheduled.seq->seq_id()).second, "twice in a step");
      TANDEM_CHECK(scheduled.entry->group->find(scheduled.seq->seq_id()) == scheduled.seq);
      TANDEM_CHECK(steps.count(scheduled.entry) > 0);
      const SequenceGroup& group = *scheduled.entry->group;
      if (!scheduled.samples || scheduled.ended() || group.pools()) continue;
      if (group.beams() == nullptr) ++pending[scheduled.seq];
      if (group.searches_ahead() && scheduled.seq == group.seqs().front().get())
        for (const auto& beam : group.seqs()) ++pending[beam.get()];
    }
  }
  const auto check = [&](const Entry& entry, bool dropped) {
    TANDEM_CHECK_EQ(entry.dropped, dropped);
    const auto it = steps.find(&entry);
    TANDEM_CHECK_EQ(entry.steps_in_flight, it == steps.end() ? 0 : it->second);
    if (it != steps.end()) steps.erase(it);
    for (const auto& seq : entry.group->seqs()) {
      const auto of = pending.find(seq.get());
      if (!dropped)
        TANDEM_CHECK_EQ(seq->num_pending_tokens(), of == pending.end() ? 0 : of->second);
    }
  };
  for (const auto& [id, entry] : groups_) check(*entry, false);
  for (const auto& entry : dropped_) {
    TANDEM_CHECK_GT(entry->steps_in_flight, 0);
    check(*entry, true);
  }
  TANDEM_CHECK(steps.empty(), "a step refers to a group that is not held");
}

void Scheduler::check_integrity() const {
  blocks_.check_integrity();
  int running_seqs = 0;
  for (const auto& [id, entry] : groups_) {
    TANDEM_CHECK_EQ(id, entry->group->request_id());
    check_entry(*entry);
    if (entry->queue == Queue::kRunning)
      running_seqs += static_cast<int>(entry->group->unfinished_seqs().size());
  }
  TANDEM_CHECK_EQ(running_seqs, num_running_seqs_);
  TANDEM_CHECK(running_seqs <= config_.max_num_seqs);
  TANDEM_CHECK_EQ(groups_.size(),
                  waiting_.size() + running_.size() + swapped_.size() + finished_.size());
  for (const Entry* entry : waiting_) TANDEM_CHECK(entry->queue == Queue::kWaiting);
  for (const Entry* entry : swapped_) TANDEM_CHECK(entry->queue == Queue::kSwapped);
  for (const Entry* entry : finished_) TANDEM_CHECK(entry->queue == Queue::kFinished);
  for (const Entry* entry : running_) TANDEM_CHECK(entry->queue == Queue::kRunning);
  TANDEM_CHECK(std::is_sorted(running_.begin(), running_.end(), Before()));
  check_steps();
}

}  // namespace tandem
