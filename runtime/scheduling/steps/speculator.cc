#include "runtime/scheduling/steps/speculator.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

// What follows an end does not matter.
void cut_behind_end(const SamplingParams& params, std::vector<int32_t>& drafts) {
  const auto& ends = params.eos_token_id();
  const auto end = std::find_if(drafts.begin(), drafts.end(), [&](int32_t token) {
    return std::find(ends.begin(), ends.end(), token) != ends.end();
  });
  if (end != drafts.end() && !params.ignore_eos()) drafts.erase(end + 1, drafts.end());
}

// A tenant with a salt shares nothing that others could notice.
bool shares_text(const SequenceGroup& group) { return group.params().cache_salt().empty(); }

bool speculates(const SequenceGroup& group) { return group.beams() == nullptr && !group.pools(); }

}  // namespace

Speculator::Speculator(const SchedulerConfig& config, BlockManager& blocks)
    : config_(config.speculation),
      runs_ahead_(config.max_steps_in_flight > 1),
      stages_(config.stages),
      blocks_(blocks),
      recent_(config.enable_prefix_caching ? config_.recent_tokens : 0),
      times_(config_.rows_of_a_step) {
  stats_.accepted_per_position.resize(static_cast<size_t>(config_.num_tokens));
  if (config_.draft_cost > 0) model_.set_cost(config_.draft_cost);
}

DraftLookup& Speculator::lookup_of(const SequenceGroup& group, const Sequence& seq) {
  const auto it = lookups_
                      .try_emplace(seq.seq_id(), config_, group.encoder_seq().tokens(), rates_,
                                   shares_text(group) ? &recent_ : nullptr)
                      .first;
  DraftLookup& lookup = it->second;
  const auto tokens = seq.tokens();
  for (size_t i = lookup.num_tokens(); i < tokens.size(); ++i)
    lookup.append(tokens[i], /*generated=*/i >= static_cast<size_t>(seq.prompt_len()));
  return lookup;
}

void Speculator::forget(const SequenceGroup& group, const Sequence& seq) {
  model_.forget(seq.seq_id());
  const auto it = lookups_.find(seq.seq_id());
  if (it == lookups_.end()) return;
  lookups_.erase(it);
  // With the end of the prompt, behind which the text begins.
  const auto begin = static_cast<size_t>(std::max(0, seq.prompt_len() - RecentTexts::kMost));
  if (shares_text(group)) recent_.add(seq.tokens().subspan(begin));
}

bool Speculator::too_many(const GroupQueues& queues) const {
  return queues.num_running_seqs() > config_.disable_by_batch_size;
}

void Speculator::measure(const StepInFlight& step, const proto::StepOutput& answer) {
  if (answer.draft_cost() > 0 && config_.draft_cost == 0) model_.set_cost(answer.draft_cost());
  computed_until_.reset();
  if (answer.seconds() <= 0) return;
  if (step.alone) computed_until_ = step.scheduled_at + answer.seconds();
  if (!step.only_decodes || step.seqs.empty()) return;
  int drafts = 0;
  for (const SequenceInFlight& scheduled : step.seqs) {
    if (scheduled.asked_drafts > 0) return;  // the draft model's steps are in it
    drafts += static_cast<int>(scheduled.drafts.size());
  }
  times_.add_step(static_cast<int>(step.seqs.size()), drafts, answer.seconds());
}

// Whoever was in the step goes on at once: else nobody waited.
void Speculator::measure_pause(const GroupQueues& queues, double now) {
  if (computed_until_ && queues.num_running_seqs() > 0) times_.add_pause(now - *computed_until_);
  computed_until_.reset();
}

bool Speculator::waits(const GroupQueues& queues, const StepsInFlight& steps, double now) {
  if (steps.size() == 0) {
    measure_pause(queues, now);
    return false;
  }
  if (steps.size() < stages_) return false;  // the next step is of other groups
  if (steps.has_drafts(stages_ - 1)) return true;
  return !too_many(queues) && is_worth_a_pause(queues, /*in_flight=*/true);
}

// Whether the sequences that wait for a token of a step in flight, or those that do not, could have
// drafts behind it that save more than it costs to wait for the step that verifies them.
bool Speculator::is_worth_a_pause(const GroupQueues& queues, bool in_flight) {
  double gain = 0;
  for (const QueuedGroup* queued : queues.running()) {
    const SequenceGroup& group = *queued->group;
    if (!speculates(group)) continue;
    for (const auto& seq : group.seqs()) {
      const int pending = seq->num_pending_tokens();
      const int left = group.params().max_tokens() - seq->output_len() - 1;
      if (seq->finished() || (pending > 0) != in_flight || left <= 0) continue;
      if (!in_flight && seq->num_uncomputed_tokens() != 1) continue;  // of its prompt
      gain += choose(queues, group, *seq, pending, std::min(left, config_.num_tokens), said_).gain;
    }
  }
  const int running = queues.num_running_seqs();
  return gain > times_.pause_cost(running) * running;
}

// The one that is worth more. Drafts must save what they cost, on average: those of either have
// rows, the draft model's its steps besides.
Speculator::Choice Speculator::choose(const GroupQueues& queues, const SequenceGroup& group,
                                      const Sequence& seq, int pending, int most,
                                      std::vector<int32_t>& looked_up) {
  const double row = times_.draft_cost(queues.num_running_seqs());
  const double gain = lookup_of(group, seq).draft(pending, most, row, looked_up);
  if (!config_.draft_model) return {0, gain};
  const auto asked = model_.plan(seq.seq_id(), row, most);
  if (asked.value <= gain - row * static_cast<double>(looked_up.size())) return {0, gain};
  looked_up.clear();
  return {asked.count, asked.value};
}

// The draft model, for a group that comes in. One whose encoder's result was found may find the
// draft model's too.
void Speculator::prepare(const GroupQueues& queues, PlannedStep::Group& scheduled) {
  if (!config_.draft_model || !scheduled.in_full || too_many(queues)) return;
  const SequenceGroup& group = *scheduled.queued->group;
  if (!speculates(group) || !model_.prepares(times_.draft_cost(queues.num_running_seqs()))) return;
  scheduled.prepare_drafts = scheduled.compute_encoder;
  for (const auto& seq : group.seqs())
    if (!seq->finished()) model_.add(seq->seq_id());
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

void Speculator::add_drafts(const GroupQueues& queues, PlannedStep& step) {
  for (PlannedStep::Group& scheduled : step.groups()) prepare(queues, scheduled);
  if (!step.room || too_many(queues)) return;
  // Without drafts the next step could be scheduled ahead of this one's answer.
  if (runs_ahead_ && !is_worth_a_pause(queues, /*in_flight=*/false)) return;
  for (PlannedStep::Group& scheduled : step.groups()) {
    const SequenceGroup& group = *scheduled.queued->group;
    if (scheduled.in_full || !speculates(group)) continue;
    for (SequenceChunk& chunk : scheduled.chunks) {
      if (step.budget == 0) return;
      if (chunk.tokens != 1 || chunk.seq->num_uncomputed_tokens() != 1 ||
          chunk.seq->num_pending_tokens() > 0)
        continue;
      const int spare = std::max(0, blocks_.device().num_free() - queues.num_running_seqs());
      const int most = std::min(step.budget, room_for(group, *chunk.seq, spare));
      if (most <= 0) continue;
      chunk.asked_drafts = choose(queues, group, *chunk.seq, 0, most, chunk.drafts).asked;
      chunk.least_likelihood =
          std::min(1.0, model_.least_likelihood(times_.draft_cost(queues.num_running_seqs())));
      cut_behind_end(group.params(), chunk.drafts);
      append_slots(chunk);
      step.budget -= chunk.num_drafts();
    }
  }
}

// For the chunk's drafts.
void Speculator::append_slots(SequenceChunk& chunk) {
  if (chunk.num_drafts() == 0) return;
  const int tokens = chunk.seq->length() + chunk.num_drafts();
  const int blocks = blocks_.blocks_to_append(*chunk.seq, tokens);
  if (blocks == 0) return;
  if (chunk.blocks == 0) chunk.old_blocks = blocks_.tables().self(*chunk.seq).size();
  chunk.blocks += blocks;
  const BlockPairs copies = blocks_.append_slots(*chunk.seq, tokens);
  TANDEM_CHECK(copies.empty(), "drafts are written to blocks of their sequence's own");
}

void Speculator::count(const SequenceInFlight& scheduled,
                       const std::optional<std::vector<int32_t>>& said, size_t accepted) {
  const int64_t seq_id = scheduled.seq->seq_id();
  const int asked = scheduled.asked_drafts;
  const size_t drafted =
      asked > 0 ? said.value_or(std::vector<int32_t>()).size() : scheduled.drafts.size();
  if (asked > 0 && !said) model_.cannot(seq_id);
  if (said) model_.record(seq_id, asked, static_cast<int>(drafted), static_cast<int>(accepted));
  if (drafted == 0) return;
  ++stats_.drafts;
  stats_.draft_tokens += static_cast<int64_t>(drafted);
  stats_.accepted_tokens += static_cast<int64_t>(accepted);
  for (size_t i = 0; i < accepted; ++i) ++stats_.accepted_per_position[i];
}

void Speculator::check_integrity(const GroupQueues& queues) const {
  times_.check_integrity();
  TANDEM_CHECK_LE(recent_.size(), static_cast<size_t>(config_.recent_tokens));
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
  int64_t asked = 0;
  for (const auto& [id, queued] : queues.all())
    for (const auto& seq : queued->group->seqs()) {
      TANDEM_CHECK(!seq->finished() || !model_.has(seq->seq_id()));
      asked += model_.has(seq->seq_id());
    }
  TANDEM_CHECK_EQ(asked, model_.size());
}

}  // namespace tandem
