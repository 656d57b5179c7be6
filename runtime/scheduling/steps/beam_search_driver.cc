#include "runtime/scheduling/steps/beam_search_driver.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/sampling/stop_rules.h"

namespace tandem {
namespace {

void write_result(const SequenceGroup& group, proto::BeamResult& out) {
  out.set_request_id(group.request_id());
  out.set_seq_id(group.seqs()[0]->seq_id());
  const auto hypotheses = group.beams()->search.hypotheses();
  for (int i = 0; i < group.params().n(); ++i) {
    const BeamSearch::Hypothesis& from = hypotheses[static_cast<size_t>(i)];
    proto::BeamHypothesis& to = *out.add_hypotheses();
    to.mutable_token_ids()->Add(from.tokens.begin(), from.tokens.end());
    to.set_score(from.score);
    to.set_cumulative_logprob(group.params().processed_logprobs()
                                  ? std::accumulate(from.logprobs.begin(), from.logprobs.end(), 0.0)
                                  : from.sum);
    if (group.params().has_logprobs())
      to.mutable_logprobs()->Add(from.logprobs.begin(), from.logprobs.end());
    const SequenceStatus status =
        from.tokens.empty()
            ? SequenceStatus::kFinishedLength
            : check_stop(group.params(), from.tokens.back(), static_cast<int>(from.tokens.size()))
                  .status;
    to.set_finish_reason(finish_reason(
        status == SequenceStatus::kRunning ? SequenceStatus::kFinishedLength : status));
  }
}

std::string to_string(std::span<const BeamSearch::Move> moves) {
  std::string parents, tokens;
  for (const auto& [parent, token] : moves) {
    parents += " " + std::to_string(parent);
    tokens += " " + std::to_string(token);
  }
  return "beams" + parents + " with tokens" + tokens;
}

std::vector<int> parents_of(std::span<const BeamSearch::Move> moves) {
  std::vector<int> out;
  for (const auto& move : moves) out.push_back(move.parent);
  return out;
}

std::vector<BeamCandidate> candidates_of(const proto::BeamCandidates& from) {
  std::vector<BeamCandidate> out;
  for (int i = 0; i < from.token_ids_size(); ++i)
    out.push_back({from.token_ids(i), from.logprobs(i),
                   from.perturbed_size() > 0 ? from.perturbed(i) : from.logprobs(i),
                   from.log_sum()});
  return out;
}

// Throws if the worker did not go on as we do.
void check_moves(const std::string& request_id, const proto::BeamMoves& answer,
                 std::span<const BeamSearch::Move> moves) {
  std::vector<BeamSearch::Move> made;
  for (int i = 0; i < std::min(answer.parents_size(), answer.token_ids_size()); ++i)
    made.push_back({answer.parents(i), answer.token_ids(i)});
  const bool equal = answer.parents_size() == answer.token_ids_size() &&
                     std::equal(made.begin(), made.end(), moves.begin(), moves.end(),
                                [](const auto& a, const auto& b) {
                                  return a.parent == b.parent && a.token == b.token;
                                });
  if (!equal)
    throw std::runtime_error("step output: request \"" + request_id +
                             "\": the worker went on from " + to_string(made) +
                             " instead of from " + to_string(moves));
}

}  // namespace

// All or nothing if workers are to hear of the last round, or if they search.
std::vector<SequenceChunk> BeamSearchDriver::choose(const SequenceGroup& group,
                                                    std::vector<SequenceChunk> chunks) const {
  const BeamState& beams = *group.beams();
  if (!group.launched()) return chunks;  // sequence 0 writes to what the others will share
  if (beams.ahead) {
    if (chunks.size() < group.seqs().size()) chunks.clear();
    for (SequenceChunk& chunk : chunks)
      chunk.blocks = blocks_.blocks_to_append(*chunk.seq, chunk.seq->length());
    return chunks;
  }
  if (group.announced() && !beams.news.empty() && chunks.size() < beams.news.size()) {
    chunks.clear();
    return chunks;
  }
  std::vector<const Sequence*> seqs;
  for (const SequenceChunk& chunk : chunks) seqs.push_back(chunk.seq);
  const std::vector<int> blocks = blocks_.blocks_to_append(seqs);
  for (size_t i = 0; i < chunks.size(); ++i) chunks[i].blocks = blocks[i];
  return chunks;
}

std::vector<proto::BeamResult> BeamSearchDriver::take_results() {
  return std::exchange(results_, {});
}

// --- Rounds behind their results -----------------------------------------------------------------

void BeamSearchDriver::collect(const SequenceInFlight& scheduled,
                               const proto::BeamCandidates& candidates) {
  BeamState& beams = *scheduled.queued->group->beams();
  if (!beams.ahead)
    beams.candidates[static_cast<size_t>(scheduled.seq->index())] = candidates_of(candidates);
}

bool BeamSearchDriver::advance(SequenceGroup& group) {
  BeamState& beams = *group.beams();
  if (beams.ahead) return false;
  const std::span all(beams.candidates);
  const auto round = beams.started() ? all : all.first(1);
  if (std::any_of(round.begin(), round.end(), [](const auto& c) { return c.empty(); }))
    return false;
  const std::vector<BeamSearch::Move> moves = beams.search.step(round);
  for (auto& candidates : beams.candidates) candidates.clear();
  if (beams.search.finished()) {
    write_result(group, results_.emplace_back());
    return true;
  }
  TANDEM_CHECK(beams.news.empty(), "workers answered a round that they were not told of");
  std::vector<int> computed;
  for (const auto& move : moves)
    computed.push_back(group.seqs()[static_cast<size_t>(move.parent)]->num_computed_tokens());
  for (size_t b = 0; b < moves.size(); ++b)
    group.seqs()[b]->continue_from(beams.search.tree(), beams.search.node(static_cast<int>(b)),
                                   computed[b]);
  blocks_.tables().adopt_tables(group, parents_of(moves));
  beams.news = moves;
  return false;
}

// --- Rounds ahead of their results ---------------------------------------------------------------

void BeamSearchDriver::launch(SequenceGroup& group, Sequence& seq) {
  if (!group.launched()) {
    TANDEM_CHECK_EQ(seq.index(), 0);
    for (const auto& fork : group.seqs()) {
      if (fork->index() == 0) continue;
      fork->advance(seq.num_computed_tokens());
      fork->add_pending();
    }
  }
  seq.add_pending();
}

std::vector<BeamSearchDriver::AheadRound> BeamSearchDriver::choose_rounds(
    const StepInFlight& step, const StepAnswers& answers) {
  std::vector<AheadRound> rounds;
  for (size_t i = 0; i < step.seqs.size();) {
    QueuedGroup& queued = *step.seqs[i].queued;
    const bool ahead = queued.group->searches_ahead();
    const proto::BeamMoves* moves = nullptr;
    std::vector<std::vector<BeamCandidate>> candidates;  // by index: so they were scheduled
    for (; i < step.seqs.size() && step.seqs[i].queued == &queued; ++i) {
      if (!ahead || answers.of(i).candidates == nullptr) continue;
      candidates.push_back(candidates_of(*answers.of(i).candidates));
      moves = answers.of(i).moves;
    }
    if (candidates.empty()) continue;
    const AheadRound& chosen =
        rounds.emplace_back(AheadRound{&queued, queued.group->beams()->search.choose(candidates)});
    if (moves != nullptr && !chosen.round.finished())
      check_moves(queued.group->request_id(), *moves, chosen.round.moves());
  }
  return rounds;
}

bool BeamSearchDriver::finish_round(const AheadRound& chosen) {
  SequenceGroup& group = *chosen.queued->group;
  BeamSearch& search = group.beams()->search;
  search.apply(chosen.round);
  if (search.finished()) {
    write_result(group, results_.emplace_back());
    return true;
  }
  // Of the tokens known so far, all of which the round computed.
  const int full = group.seqs().front()->num_known_tokens() / blocks_.pools().block_size();
  for (int b = 0; b < search.num_beams(); ++b)
    group.seqs()[static_cast<size_t>(b)]->resolve_pending_from(search.tree(), search.node(b));
  blocks_.tables().adopt_full_blocks(group, parents_of(chosen.round.moves()), full);
  return false;
}

// --- Integrity -----------------------------------------------------------------------------------

void BeamSearchDriver::check_integrity(const SequenceGroup& group) const {
  const BeamState& beams = *group.beams();
  beams.search.check_integrity();
  if (group.finished()) return;
  const Sequence& first = *group.seqs().front();
  for (const auto& seq : group.seqs()) {
    if (beams.started()) {
      const auto output = seq->output_tokens();
      const auto searched = beams.search.tokens(seq->index());
      TANDEM_CHECK(std::equal(output.begin(), output.end(), searched.begin(), searched.end()));
    }
    if (!beams.ahead) continue;
    TANDEM_CHECK(beams.news.empty() && beams.candidates[static_cast<size_t>(seq->index())].empty());
    TANDEM_CHECK_EQ(seq->length(), first.length());
    TANDEM_CHECK_EQ(seq->num_pending_tokens(), first.num_pending_tokens());
    if (first.num_pending_tokens() > 0)
      TANDEM_CHECK_EQ(seq->num_computed_tokens(), first.num_computed_tokens());
    if (group.waits_for_fork(*seq)) TANDEM_CHECK_EQ(seq->num_computed_tokens(), 0);
    // Blocks are shared up to where all rounds that are completed have filled them.
    const int filled = seq->num_known_tokens() - (beams.started() ? 1 : 0);
    if (blocks_.tables().has_self(*seq))
      blocks_.tables().check_owned(*seq, filled / blocks_.pools().block_size());
  }
}

}  // namespace tandem
