// Beams in the scheduler: a round's chunks, what workers are told of the last one, and the step
// from one to the next.
//
// A round: every running beam computes its last token, workers answer with candidates, and when all
// have come the search says which beam goes on from which, and with what. Tokens and block tables
// follow at once; workers hear of it with the next step, as news in the deltas, or because the
// group travels in full.

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/check.h"
#include "runtime/scheduler.h"
#include "runtime/stop_rules.h"

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

}  // namespace

// The blocks that the beams need. All or nothing if workers are to hear of the last round.
std::vector<Scheduler::Chunk> Scheduler::choose_beams(const SequenceGroup& group,
                                                      std::vector<Chunk> chunks) const {
  const BeamState& beams = *group.beams();
  if (!beams.started()) return chunks;  // sequence 0 writes to what the others will share
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

// The next round, once all beams have answered.
void Scheduler::advance_beams(Entry& entry) {
  SequenceGroup& group = *entry.group;
  BeamState& beams = *group.beams();
  const std::span all(beams.candidates);
  const auto round = beams.started() ? all : all.first(1);
  if (std::any_of(round.begin(), round.end(), [](const auto& c) { return c.empty(); })) return;
  const std::vector<BeamSearch::Move> moves = beams.search.step(round);
  for (auto& candidates : beams.candidates) candidates.clear();
  if (beams.search.finished()) {
    write_result(group, beam_results_.emplace_back());
    finish_sequence(group.request_id(), group.seqs().front()->seq_id(),
                    SequenceStatus::kFinishedStopped);
    return;
  }
  TANDEM_CHECK(beams.news.empty(), "workers answered a round that they were not told of");
  std::vector<int> parents;
  std::vector<std::pair<std::vector<int32_t>, int>> histories;  // tokens, computed
  for (const auto& [parent, token] : moves) {
    const Sequence& from = *group.seqs()[static_cast<size_t>(parent)];
    parents.push_back(parent);
    auto& [tokens, computed] = histories.emplace_back();
    tokens.reserve(from.tokens().size() + 1);
    tokens.assign(from.tokens().begin(), from.tokens().end());
    tokens.push_back(token);
    computed = from.num_computed_tokens();
  }
  for (size_t i = 0; i < histories.size(); ++i)
    group.seqs()[i]->continue_from(std::move(histories[i].first), histories[i].second);
  blocks_.adopt_tables(group, parents);
  beams.news = moves;
}

std::vector<proto::BeamResult> Scheduler::take_beam_results() {
  return std::exchange(beam_results_, {});
}

}  // namespace tandem
