#include "runtime/scheduling/drafts/speculator.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

// Rows of a step whose computation takes as long as what a step takes however few they are, most of
// all reading the weights.
constexpr double kRowsOfAStep = 2.5;
// What a step loses that was not scheduled ahead, as a share of it.
constexpr double kPause = 0.05;

// What follows an end does not matter.
void cut_behind_end(const SamplingParams& params, std::vector<int32_t>& drafts) {
  const auto& ends = params.eos_token_id();
  const auto end = std::find_if(drafts.begin(), drafts.end(), [&](int32_t token) {
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  });
  if (end != drafts.end() && !params.ignore_eos()) drafts.erase(end + 1, drafts.end());
}

bool speculates(const SequenceGroup& group) { return group.beams() == nullptr && !group.pools(); }

}  // namespace

Speculator::Speculator(const SchedulerConfig& config, BlockManager& blocks)
    : config_(config.speculation), blocks_(blocks) {
  stats_.accepted_per_position.resize(static_cast<size_t>(config_.num_tokens));
}

DraftLookup& Speculator::lookup_of(const SequenceGroup& group, const Sequence& seq) {
  const auto it =
      lookups_.try_emplace(seq.seq_id(), config_, group.encoder_seq().tokens(), rates_).first;
  DraftLookup& lookup = it->second;
  const auto tokens = seq.tokens();
  for (size_t i = lookup.num_tokens(); i < tokens.size(); ++i)
    lookup.append(tokens[i], /*generated=*/i >= static_cast<size_t>(seq.prompt_len()));
  return lookup;
}

bool Speculator::too_many(const GroupQueues& queues) const {
  return queues.num_running_seqs() > config_.disable_by_batch_size;
}

// With n rows a step takes kRowsOfAStep + n: a token in it costs an n-th of that, and a draft 1. It
// must save that, on average.
double Speculator::least_likelihood(const GroupQueues& queues) const {
  const double n = std::max(1, queues.num_running_seqs());
  return n / (n + kRowsOfAStep);
}

bool Speculator::waits(const GroupQueues& queues, const StepsInFlight& steps) {
  if (steps.size() == 0) return false;
  if (steps.has_drafts()) return true;
  if (too_many(queues)) return false;
  const double least = least_likelihood(queues);
  double gain = 0;
  for (const QueuedGroup* queued : queues.running()) {
    const SequenceGroup& group = *queued->group;
    if (!speculates(group)) continue;
    for (const auto& seq : group.seqs()) {
      const int pending = seq->num_pending_tokens();
      const int left = group.params().max_tokens() - seq->output_len() - 1;
      if (seq->finished() || pending == 0 || left <= 0) continue;
      gain +=
          lookup_of(group, *seq).draft(pending, std::min(left, config_.num_tokens), least, said_);
    }
  }
  return gain > kPause * queues.num_running_seqs();
}

// Drafts of the sequence that its tokens have room for: the last one that may be generated is not
// fed. And blocks: its own, and spare ones.
int Speculator::room_for(const SequenceGroup& group, const Sequence& seq, int spare_blocks) const {
  const int left = group.params().max_tokens() - seq.output_len() - 1;
  const int size = blocks_.pools().block_size();
  const int blocks = static_cast<int>(blocks_.tables().self(seq).size()) + spare_blocks;
  const int64_t slots = int64_t{blocks} * size - seq.length();
  return static_cast<int>(std::min<int64_t>({left, config_.num_tokens, slots}));
}

void Speculator::add_drafts(const GroupQueues& queues, StepDraft& draft) {
  if (!draft.room || too_many(queues)) return;
  const double least = least_likelihood(queues);
  for (StepDraft::Group& scheduled : draft.groups()) {
    const SequenceGroup& group = *scheduled.queued->group;
    if (scheduled.in_full || !speculates(group)) continue;
    for (SequenceChunk& chunk : scheduled.chunks) {
      if (draft.budget == 0) return;
      if (chunk.tokens != 1 || chunk.seq->num_uncomputed_tokens() != 1 ||
          chunk.seq->num_pending_tokens() > 0)
        continue;
      const int spare = std::max(0, blocks_.device().num_free() - queues.num_running_seqs());
      const int most = std::min(draft.budget, room_for(group, *chunk.seq, spare));
      if (most <= 0) continue;
      lookup_of(group, *chunk.seq).draft(0, most, least, chunk.drafts);
      cut_behind_end(group.params(), chunk.drafts);
      append_slots(chunk);
      draft.budget -= static_cast<int>(chunk.drafts.size());
    }
  }
}

// For the chunk's drafts.
void Speculator::append_slots(SequenceChunk& chunk) {
  if (chunk.drafts.empty()) return;
  const int tokens = chunk.seq->length() + static_cast<int>(chunk.drafts.size());
  const int blocks = blocks_.blocks_to_append(*chunk.seq, tokens);
  if (blocks == 0) return;
  if (chunk.blocks == 0) chunk.old_blocks = blocks_.tables().self(*chunk.seq).size();
  chunk.blocks += blocks;
  const BlockPairs copies = blocks_.append_slots(*chunk.seq, tokens);
  TANDEM_CHECK(copies.empty(), "drafts are written to blocks of their sequence's own");
}

void Speculator::count(size_t drafted, size_t accepted) {
  ++stats_.drafts;
  stats_.draft_tokens += static_cast<int64_t>(drafted);
  stats_.accepted_tokens += static_cast<int64_t>(accepted);
  for (size_t i = 0; i < accepted; ++i) ++stats_.accepted_per_position[i];
}

void Speculator::check_integrity(const GroupQueues& queues) const {
  size_t found = 0;
  for (const auto& [id, queued] : queues.all())
    for (const auto& seq : queued->group->seqs()) {
      const auto it = lookups_.find(seq->seq_id());
      if (it == lookups_.end()) continue;
      ++found;
      const DraftLookup& lookup = it->second;
      TANDEM_CHECK(!seq->finished(), "a sequence that has ended is looked up");
      lookup.check_integrity();
      const auto text = lookup.index().text().last(lookup.num_tokens());
      TANDEM_CHECK_LE(text.size(), seq->tokens().size());
      TANDEM_CHECK(std::equal(text.begin(), text.end(), seq->tokens().begin()));
    }
  TANDEM_CHECK_EQ(found, lookups_.size());
}

}  // namespace tandem
