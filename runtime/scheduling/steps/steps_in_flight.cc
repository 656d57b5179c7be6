#include "runtime/scheduling/steps/steps_in_flight.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

[[noreturn]] void fail(const std::string& request_id, int64_t seq_id, const char* what) {
  throw std::runtime_error("step output: request \"" + request_id + "\", sequence " +
                           std::to_string(seq_id) + ": " + what);
}

}  // namespace

// --- StepsInFlight -------------------------------------------------------------------------------

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
  queued.last_step = step.number;
  step.groups.push_back(&queued);
}

bool StepsInFlight::has_drafts(int behind) const {
  return std::any_of(steps_.begin(), steps_.end() - std::min(behind, size()),
                     [](const StepInFlight& step) { return step.has_drafts(); });
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
    TANDEM_CHECK_EQ(step.number, number++);
    for (const QueuedGroup* queued : step.groups) ++steps[queued];
    std::unordered_set<int64_t> seen;
    for (const SequenceInFlight& scheduled : step.seqs) {
      TANDEM_CHECK(seen.insert(scheduled.seq->seq_id()).second, "twice in a step");
      const SequenceGroup& group = *scheduled.queued->group;
      TANDEM_CHECK(group.find(scheduled.seq->seq_id()) == scheduled.seq);
      TANDEM_CHECK(steps.count(scheduled.queued) > 0);
      TANDEM_CHECK(!scheduled.has_drafts() || scheduled.samples);
      TANDEM_CHECK(!scheduled.has_drafts() || scheduled.ended() ||
                       scheduled.queued->last_step == step.number,
                   "a step runs ahead of drafts");
      if (!scheduled.samples || scheduled.ended() || group.pools_encoder()) continue;
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

// --- StepAnswers ---------------------------------------------------------------------------------

void StepAnswers::read(const StepInFlight& step, const proto::StepOutput& output) {
  begin(step);
  for (const proto::SequenceGroupOutput& group : output.outputs()) {
    if (group.has_embedding()) take_embedding(group);
    for (const proto::SequenceOutput& sample : group.samples()) {
      const auto& drafts = sample.drafts().token_ids();
      if (sample.has_drafts())
        take_drafts(group.request_id(), sample.seq_id(), {drafts.begin(), drafts.end()});
      if (sample.has_candidates())
        take_candidates(group, sample);
      else
        take_token(group.request_id(), sample.seq_id(), sample.token_id());
    }
  }
  check_whole();
}

void StepAnswers::begin(const StepInFlight& step) {
  step_ = &step;
  answers_.assign(step.seqs.size(), {});
  cursor_ = 0;
  by_id_.clear();
}

size_t StepAnswers::find(int64_t seq_id) {
  const auto& seqs = step_->seqs;
  if (cursor_ > 0 && seqs[cursor_ - 1].seq->seq_id() == seq_id) return cursor_ - 1;
  if (by_id_.empty()) {
    for (size_t i = cursor_; i < seqs.size(); ++i) {
      if (seqs[i].seq->seq_id() != seq_id) continue;
      cursor_ = i + 1;
      return i;
    }
    for (size_t i = 0; i < seqs.size(); ++i) by_id_.emplace(seqs[i].seq->seq_id(), i);
  }
  const auto it = by_id_.find(seq_id);
  return it == by_id_.end() ? kNowhere : it->second;
}

// Where an answer belongs; null if its group or sequence has ended meanwhile. may_go_on: it may
// have one, if it has drafts.
StepAnswers::Answer* StepAnswers::place_of(const std::string& request_id, int64_t seq_id,
                                           bool may_go_on) {
  const size_t at = find(seq_id);
  if (at != kNowhere && step_->seqs[at].queued->group->request_id() == request_id) {
    const SequenceInFlight& scheduled = step_->seqs[at];
    if (scheduled.ended()) return nullptr;
    if (!scheduled.samples) fail(request_id, seq_id, "a token, but its prompt is not finished");
    if (answers_[at].given && !(may_go_on && scheduled.has_drafts()))
      fail(request_id, seq_id, "two tokens");
    return &answers_[at];
  }
  const QueuedGroup* queued = queues_.find(request_id);
  if (queued == nullptr || queued->queue == QueuedGroup::Queue::kFinished) return nullptr;
  const Sequence* seq = queued->group->find(seq_id);
  if (seq == nullptr) fail(request_id, seq_id, "unknown sequence");
  if (!seq->finished()) fail(request_id, seq_id, "a token, but it was not scheduled");
  return nullptr;
}

const SequenceInFlight& StepAnswers::scheduled(const Answer& answer) const {
  return step_->seqs[static_cast<size_t>(&answer - answers_.data())];
}

const SequenceGroup& StepAnswers::group_of(const Answer& answer) const {
  return *scheduled(answer).queued->group;
}

// Tokens go on as long as they are what the drafts say.
void StepAnswers::take_more(const SequenceInFlight& scheduled, int32_t token,
                            Answer& answer) const {
  const std::string& request_id = scheduled.queued->group->request_id();
  const int64_t seq_id = scheduled.seq->seq_id();
  const size_t right = answer.more.size();
  const std::vector<int32_t>& drafts = answer.drafts ? *answer.drafts : scheduled.drafts;
  if (right == drafts.size()) fail(request_id, seq_id, "more tokens than drafts");
  const int32_t before = right == 0 ? answer.token : answer.more.back();
  if (before != drafts[right]) fail(request_id, seq_id, "a token behind a draft that was wrong");
  answer.more.push_back(token);
}

void StepAnswers::take_token(const std::string& request_id, int64_t seq_id, int32_t token) {
  Answer* const answer = place_of(request_id, seq_id, /*may_go_on=*/true);
  if (answer == nullptr) return;
  if (answer->given) return take_more(scheduled(*answer), token, *answer);
  const SequenceGroup& group = group_of(*answer);
  if (group.beams() != nullptr) fail(request_id, seq_id, "a token, but it is a beam");
  if (group.pools()) fail(request_id, seq_id, "a token, but hidden states are to be pooled");
  answer->given = true;
  answer->token = token;
}

// They come with the sequence's first token.
void StepAnswers::take_drafts(const std::string& request_id, int64_t seq_id,
                              std::vector<int32_t> drafts) {
  Answer* const answer = place_of(request_id, seq_id, /*may_go_on=*/true);
  if (answer == nullptr) return;
  const int asked = scheduled(*answer).asked_drafts;
  if (asked == 0) fail(request_id, seq_id, "drafts, but none were asked for");
  if (std::ssize(drafts) > asked) fail(request_id, seq_id, "more drafts than were asked for");
  if (answer->given || answer->drafts) fail(request_id, seq_id, "drafts behind a token");
  answer->drafts = std::move(drafts);
}

void StepAnswers::take_candidates(const proto::SequenceGroupOutput& output,
                                  const proto::SequenceOutput& sample) {
  const std::string& request_id = output.request_id();
  Answer* const answer = place_of(request_id, sample.seq_id());
  if (answer == nullptr) return;
  const SequenceGroup& group = group_of(*answer);
  const proto::BeamCandidates& candidates = sample.candidates();
  const int count = candidates.token_ids_size();
  if (group.beams() == nullptr)
    fail(request_id, sample.seq_id(), "candidates, but it is not a beam");
  if (count < 1 || count > num_beam_candidates(group.params()))
    fail(request_id, sample.seq_id(), "too few or too many candidates");
  if (candidates.logprobs_size() != count ||
      candidates.perturbed_size() != (group.params().do_sample() ? count : 0))
    fail(request_id, sample.seq_id(), "candidates of unequal lists");
  if (output.has_moves() && !group.searches_ahead())
    fail(request_id, sample.seq_id(), "moves, but workers do not search its beams");
  answer->given = true;
  answer->candidates = &candidates;
  answer->moves = output.has_moves() ? &output.moves() : nullptr;
}

// Rows of spans, behind which others come.
bool StepAnswers::is_part(const proto::SequenceGroupOutput& output) {
  const size_t at = find(output.seq_id());
  if (at == kNowhere) return false;
  const SequenceInFlight& scheduled = step_->seqs[at];
  return !scheduled.samples && scheduled.queued->group->request_id() == output.request_id() &&
         wants_all_rows(scheduled.queued->group->params());
}

void StepAnswers::take_embedding(const proto::SequenceGroupOutput& output) {
  if (is_part(output)) return;
  Answer* const answer = place_of(output.request_id(), output.seq_id());
  if (answer == nullptr) return;
  if (!group_of(*answer).pools())
    fail(output.request_id(), output.seq_id(), "a pooled vector, but tokens are generated");
  answer->given = true;
}

void StepAnswers::check_whole() const {
  for (size_t i = 0; i < answers_.size(); ++i) {
    const SequenceInFlight& scheduled = step_->seqs[i];
    if (answers_[i].given || !scheduled.samples || scheduled.ended()) continue;
    const SequenceGroup& group = *scheduled.queued->group;
    fail(group.request_id(), scheduled.seq->seq_id(),
         group.pools() ? "no pooled vector" : "no token");
  }
}

}  // namespace tandem
