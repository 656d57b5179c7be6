#include "runtime/scheduling/steps/step_flight.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

bool only_decodes(const StepDraft& draft) {
  if (!draft.swap_out.empty() || !draft.swap_in.empty()) return false;
  const auto& groups = draft.groups();
  return std::none_of(groups.begin(), groups.end(), [](const StepDraft::Group& group) {
    return group.in_full || group.compute_encoder || group.queued->group->pools() ||
           std::any_of(group.chunks.begin(), group.chunks.end(),
                       [](const SequenceChunk& chunk) { return chunk.tokens != 1; });
  });
}

}  // namespace

uint64_t StepFlight::take_off(StepDraft& draft) {
  StepInFlight& step = steps_.begin(draft.now);
  step.only_decodes = only_decodes(draft);
  step.groups.reserve(draft.groups().size());
  step.seqs.reserve(draft.groups().size());
  for (const bool in_full : {true, false})  // as in the message
    for (StepDraft::Group& group : draft.groups())
      if (group.in_full == in_full) put_in_flight(group, step);
  return step.number;
}

void StepFlight::put_in_flight(StepDraft::Group& scheduled, StepInFlight& step) {
  QueuedGroup& queued = *scheduled.queued;
  SequenceGroup& group = *queued.group;
  const BeamState* beams = group.beams();
  StepsInFlight::add_group(step, queued);
  if (scheduled.compute_encoder) group.set_encoder_computed(true);
  if (group.pools()) step.seqs.push_back({&queued, group.seqs()[0].get(), /*samples=*/true});
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
void StepFlight::cache_blocks(const SequenceGroup& group, const Sequence& seq, int from) {
  if (!config_.enable_prefix_caching || (group.searches_ahead() && group.launched())) return;
  const int size = config_.block_size;
  const int known = std::min(seq.num_computed_tokens(), seq.num_known_tokens());
  if (known / size > from / size) blocks_.cache_full_blocks(group, seq);
}

// Sequences advanced when the step was scheduled: its pending tokens become known ones.
void StepFlight::complete(StepInFlight& step) {
  const auto rounds = BeamSearchDriver::choose_rounds(step, answers_);  // the last that throws
  for (size_t i = 0; i < step.seqs.size(); ++i)
    if (answers_.of(i).given) take_answer(step.seqs[i], answers_.of(i));
  for (QueuedGroup* queued : step.groups)
    if (!queued->dropped && queued->group->beams() != nullptr && !queued->group->finished() &&
        beams_.advance(*queued->group))
      ends_.finish_search(*queued);
  for (const auto& round : rounds)
    if (beams_.finish_round(round)) ends_.finish_search(*round.queued);
  steps_.complete_oldest();
  queues_.forget_dropped();
}

void StepFlight::take_answer(const SequenceInFlight& scheduled, const StepAnswers::Answer& answer) {
  const SequenceGroup& group = *scheduled.queued->group;
  Sequence& seq = *scheduled.seq;
  if (group.pools()) return ends_.finish(*scheduled.queued, seq, SequenceStatus::kFinishedStopped);
  if (answer.candidates != nullptr) return BeamSearchDriver::collect(scheduled, *answer.candidates);
  const int from = seq.num_known_tokens();
  seq.resolve_pending(answer.token);
  for (const int32_t token : answer.more) seq.go_on_behind_draft(token);
  if (scheduled.has_drafts()) speculator_.count(scheduled, answer.drafts, answer.more.size());
  cache_blocks(group, seq, from);
}

}  // namespace tandem
