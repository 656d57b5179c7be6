#include "runtime/scheduling/steps/step_answers.h"

#include <stdexcept>
#include <utility>

#include "runtime/sampling/beam_search.h"

namespace tandem {
namespace {

constexpr size_t kNowhere = static_cast<size_t>(-1);

[[noreturn]] void fail(const std::string& request_id, int64_t seq_id, const char* what) {
  throw std::runtime_error("step output: request \"" + request_id + "\", sequence " +
                           std::to_string(seq_id) + ": " + what);
}

}  // namespace

void StepAnswers::read(const StepInFlight& step, const std::vector<SampledToken>& sampled) {
  begin(step);
  for (const auto& [request_id, seq_id, token, drafts] : sampled) {
    if (drafts) take_drafts(request_id, seq_id, *drafts);
    take_token(request_id, seq_id, token);
  }
  check_whole();
}

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
  if (group.pools()) fail(request_id, seq_id, "a token, but its encoder's output is to be pooled");
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

void StepAnswers::take_embedding(const proto::SequenceGroupOutput& output) {
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
