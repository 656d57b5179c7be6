// Beams in the scheduler: a round's chunks, what workers are told of the last one, and the step
// from one to the next.
//
// A round: every running beam computes its last token, workers answer with candidates, and when all
// have come the search says which beam goes on from which, and with what. Tokens and block tables
// follow at once; workers hear of it with the next step, as news in the deltas, or because the
// group travels in full.
//
// Where workers search as well (BeamState::ahead), a round is launched as soon as all beams' last
// tokens are scheduled, and the next one may follow at once: workers go on with the moves that they
// made. The answers to a round then resolve one pending token of each beam, and full blocks change
// tables. What is behind those in a beam's table stays there, since workers move the contents.

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/sampling/stop_rules.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

namespace {

void write_result(const SequenceGroup& group, proto::BeamResult& out) {
  out.set_request_id(group.request_id());
  out.set_seq_id(group.seqs()[0]->seq_id());
  const auto& hypotheses = group.beams()->search.hypotheses();
  for (int i = 0; i < group.params().n(); ++i) {
    const BeamSearch::Hypothesis& from = hypotheses[static_cast<size_t>(i)];
    proto::BeamHypothesis& to = *out.add_hypotheses();
    to.mutable_token_ids()->Add(from.tokens.begin(), from.tokens.end());
    to.set_score(from.score);
    to.set_cumulative_logprob(from.sum);
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

// The known tokens that each beam has after the moves.
std::vector<std::vector<int32_t>> histories_of(const SequenceGroup& group,
                                               std::span<const BeamSearch::Move> moves) {
  std::vector<std::vector<int32_t>> out;
  for (const auto& [parent, token] : moves) {
    const auto tokens = group.seqs()[static_cast<size_t>(parent)]->tokens();
    auto& history = out.emplace_back();
    history.reserve(tokens.size() + 1);
    history.assign(tokens.begin(), tokens.end());
    history.push_back(token);
  }
  return out;
}

std::vector<int> parents_of(std::span<const BeamSearch::Move> moves) {
  std::vector<int> out;
  for (const auto& move : moves) out.push_back(move.parent);
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

// The blocks that the beams need. All or nothing if workers are to hear of the last round, or if
// they search.
std::vector<Scheduler::Chunk> Scheduler::choose_beams(const SequenceGroup& group,
                                                      std::vector<Chunk> chunks) const {
  const BeamState& beams = *group.beams();
  if (!group.launched()) return chunks;  // sequence 0 writes to what the others will share
  if (beams.ahead) {
    if (chunks.size() < group.seqs().size()) chunks.clear();
    for (Chunk& chunk : chunks)
      chunk.blocks = blocks_.blocks_to_append(*chunk.seq, chunk.seq->length());
    return chunks;
  }
  if (group.announced() && !beams.news.empty() && chunks.size() < beams.news.size()) {
    chunks.clear();
    return chunks;
  }
  std::vector<const Sequence*> seqs;
  for (const Chunk& chunk : chunks) seqs.push_back(chunk.seq);
  const std::vector<int> blocks = blocks_.blocks_to_append(seqs);
  for (size_t i = 0; i < chunks.size(); ++i) chunks[i].blocks = blocks[i];
  return chunks;
}

// What the last round decided for the chunk's beam. True if that includes its whole block table.
bool Scheduler::write_beam_news(const StepGroup& scheduled, const Chunk& chunk,
                                proto::SequenceDelta& delta) const {
  const SequenceGroup& group = *scheduled.entry->group;
  if (group.beams() == nullptr || group.beams()->news.empty()) return false;
  const auto [parent, token] = group.beams()->news[static_cast<size_t>(chunk.seq->index())];
  delta.set_token(token);
  if (parent == chunk.seq->index()) return false;
  const Blocks& blocks = blocks_.get_block_table(*chunk.seq);
  delta.set_parent_seq_id(group.seqs()[static_cast<size_t>(parent)]->seq_id());
  delta.mutable_blocks()->Add(blocks.begin(), blocks.end());
  return true;
}

std::vector<BeamCandidate> Scheduler::candidates_of(const proto::BeamCandidates& from) {
  std::vector<BeamCandidate> out;
  for (int i = 0; i < from.token_ids_size(); ++i)
    out.push_back({from.token_ids(i), from.logprobs(i),
                   from.perturbed_size() > 0 ? from.perturbed(i) : from.logprobs(i)});
  return out;
}

void Scheduler::finish_search(const SequenceGroup& group) {
  write_result(group, beam_results_.emplace_back());
  finish_sequence(group.request_id(), group.seqs().front()->seq_id(),
                  SequenceStatus::kFinishedStopped);
}

// --- Rounds behind their results -----------------------------------------------------------------

// The next round, once all beams have answered.
void Scheduler::advance_beams(Entry& entry) {
  SequenceGroup& group = *entry.group;
  BeamState& beams = *group.beams();
  if (beams.ahead) return;
  const std::span all(beams.candidates);
  const auto round = beams.started() ? all : all.first(1);
  if (std::any_of(round.begin(), round.end(), [](const auto& c) { return c.empty(); })) return;
  const std::vector<BeamSearch::Move> moves = beams.search.step(round);
  for (auto& candidates : beams.candidates) candidates.clear();
  if (beams.search.finished()) return finish_search(group);
  TANDEM_CHECK(beams.news.empty(), "workers answered a round that they were not told of");
  std::vector<int> computed;
  for (const auto& move : moves)
    computed.push_back(group.seqs()[static_cast<size_t>(move.parent)]->num_computed_tokens());
  auto histories = histories_of(group, moves);
  for (size_t b = 0; b < histories.size(); ++b)
    group.seqs()[b]->continue_from(std::move(histories[b]), computed[b]);
  blocks_.adopt_tables(group, parents_of(moves));
  beams.news = moves;
}

// --- Rounds ahead of their results ---------------------------------------------------------------

// The beam's last token is computed by the step that has been scheduled: of all beams, or of the
// first in the first round, which computes the forks' prompt as well.
void Scheduler::launch(SequenceGroup& group, Sequence& seq) {
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

// Where the step's answers take the searches. They are copies: if a worker went on otherwise this
// throws, and nothing has changed.
std::vector<Scheduler::Round> Scheduler::search_ahead(const StepInFlight& step) {
  std::vector<Round> rounds;
  for (size_t i = 0; i < step.seqs.size();) {
    Entry& entry = *step.seqs[i].entry;
    const proto::BeamMoves* answer = nullptr;
    std::vector<std::vector<BeamCandidate>> candidates;  // by index: so they were scheduled
    for (; i < step.seqs.size() && step.seqs[i].entry == &entry; ++i) {
      if (!entry.group->searches_ahead() || step.seqs[i].candidates == nullptr) continue;
      candidates.push_back(candidates_of(*step.seqs[i].candidates));
      answer = step.seqs[i].moves;
    }
    if (candidates.empty()) continue;
    Round& round = rounds.emplace_back(Round{&entry, entry.group->beams()->search});
    round.moves = round.search.step(candidates);
    if (answer != nullptr && !round.search.finished())
      check_moves(entry.group->request_id(), *answer, round.moves);
  }
  return rounds;
}

void Scheduler::finish_round(Round& round) {
  SequenceGroup& group = *round.entry->group;
  BeamState& beams = *group.beams();
  beams.search = std::move(round.search);
  if (beams.search.finished()) return finish_search(group);
  // Of the tokens known so far, all of which the round computed.
  const int full = static_cast<int>(group.seqs().front()->tokens().size()) / config_.block_size;
  auto histories = histories_of(group, round.moves);
  for (size_t i = 0; i < histories.size(); ++i)
    group.seqs()[i]->resolve_pending_from(std::move(histories[i]));
  blocks_.adopt_full_blocks(group, parents_of(round.moves), full);
}

// --- Integrity -----------------------------------------------------------------------------------

void Scheduler::check_beams(const Entry& entry) const {
  const SequenceGroup& group = *entry.group;
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
    const int filled = static_cast<int>(seq->tokens().size()) - (beams.started() ? 1 : 0);
    if (blocks_.has_block_table(*seq)) blocks_.check_owned(*seq, filled / config_.block_size);
  }
}

std::vector<proto::BeamResult> Scheduler::take_beam_results() {
  return std::exchange(beam_results_, {});
}

}  // namespace tandem
