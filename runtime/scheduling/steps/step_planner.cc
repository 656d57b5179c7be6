#include "runtime/scheduling/steps/step_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

namespace {

// A sequence that has all the tokens it may have waits for someone to finish it; a beam that has
// been computed waits for the others.
bool may_run(const Sequence& seq, const SequenceGroup& group) {
  if (seq.finished() || group.pools_encoder() || group.awaits_encoder() ||
      seq.output_len() >= group.params().max_tokens())
    return false;
  return group.beams() == nullptr ||
         (!group.waits_for_fork(seq) && seq.num_uncomputed_tokens() > 0);
}

// Of a prompt whose tokens attend to all of it: those that are not computed.
int whole_prompt_tokens(const Sequence& seq, const SequenceGroup& group) {
  if (!group.has_whole_prompt() || !may_run(seq, group) || group.waits_for_fork(seq)) return 0;
  return std::max(0, seq.prompt_len() - seq.num_computed_tokens());
}

int whole_prompt_tokens(const SequenceGroup& group) {
  int tokens = 0;
  for (const auto& seq : group.seqs()) tokens += whole_prompt_tokens(*seq, group);
  return tokens;
}

// A group travels in full when it comes in, so all its tokens must be known.
bool may_return(const SequenceGroup& group) {
  return !group.has_pending_tokens() && !group.awaits_candidates();
}

int blocks_of(const std::vector<SequenceChunk>& chunks) {
  int blocks = 0;
  for (const SequenceChunk& chunk : chunks) blocks += chunk.blocks;
  return blocks;
}

void append(const BlockPairs& pairs, BlockPairs& to) {
  to.insert(to.end(), pairs.begin(), pairs.end());
}

}  // namespace

void StepPlanner::plan(PlannedStep& step) {
  encoders_.take(step);
  QueuedGroup* const turn = encoder_turn_due() ? queues_.first_waiting() : nullptr;
  if (turn != nullptr) {
    admit(*turn, step);
    step.preempting = false;  // or it could preempt the group that was just admitted
  }
  schedule_running(step);
  if (turn != nullptr) {
    choose_admitted(*turn, step);
  } else if (step.room) {
    schedule_swapped(step);
    schedule_waiting(step);
  }
  last_was_turn_ = turn != nullptr;
  last_lacked_room_ = !step.room;
}

// --- Passes --------------------------------------------------------------------------------------

// The first waiting group could come in, but its encoder, or its whole prompt, does not fit beside
// the running sequences (each of which needs at least one token, unless it waits for its last
// ones). Running sequences get every other step at least.
bool StepPlanner::encoder_turn_due() const {
  if (queues_.first_waiting() == nullptr || queues_.first_swapped() != nullptr) return false;
  // Those that are pooled wait for their step only.
  const bool others =
      std::any_of(queues_.running().begin(), queues_.running().end(),
                  [](const QueuedGroup* queued) { return !queued->group->pools_encoder(); });
  if (others && (last_was_turn_ || last_lacked_room_)) return false;
  const QueuedGroup& head = *queues_.first_waiting();
  const int cost = indivisible_cost(*head.group);
  const int64_t left = int64_t{config_.max_num_batched_tokens} - cost;
  if (cost == 0 || queues_.num_running_seqs() <= left || !can_admit(head)) return false;
  int64_t able = 0;
  for (const QueuedGroup* queued : queues_.running())
    if (is_next(*queued))
      for (const auto& seq : queued->group->seqs()) able += may_run(*seq, *queued->group);
  return std::min<int64_t>(able, share_of(queues_.num_running_seqs())) > left;
}

void StepPlanner::schedule_running(PlannedStep& step) {
  std::vector<QueuedGroup*> prompts;
  const int most = step.num_seqs + share_of(queues_.num_running_seqs());
  for (size_t i = 0; i < queues_.running().size() && step.budget > 0 && step.num_seqs < most; ++i) {
    QueuedGroup& queued = *queues_.running()[i];
    if (queued.planned_index >= 0 || !is_next(queued)) continue;
    bool has_prompts = false;
    std::vector<SequenceChunk> chunks = choose_decodes(*queued.group, step, &has_prompts);
    if (has_prompts) prompts.push_back(&queued);
    if (chunks.empty() || !make_room(queued, blocks_of(chunks), step)) continue;
    append_slots(*queued.group, chunks, step);
    step.budget -= static_cast<int>(chunks.size());
    step.num_seqs += static_cast<int>(chunks.size());
    step.put(queued).chunks = std::move(chunks);
  }
  // Preemption strikes behind the group that needs blocks, so these still run.
  for (QueuedGroup* queued : prompts) {
    if (step.budget == 0 || step.num_seqs >= most) break;
    // Where encoders run elsewhere, a whole prompt does not come with them.
    step.budget = std::max(0, step.budget - whole_prompt_tokens(*queued->group));
    choose_prompts(*queued->group, 2, step, step.put(*queued).chunks);
  }
}

void StepPlanner::schedule_swapped(PlannedStep& step) {
  while (queues_.first_swapped() != nullptr && step.budget > 0 && has_seat(step)) {
    QueuedGroup& queued = *queues_.first_swapped();
    const SequenceGroup& group = *queued.group;
    std::vector<SequenceChunk> chunks = choose_decodes(group, step, nullptr);
    const int blocks = blocks_.tables().num_blocks(group) + blocks_of(chunks);
    if (!may_return(group) || !seats_for(group) || blocks_.can_swap_in(group) != AllocStatus::kOk ||
        !keeps_headroom(group, blocks))
      return;
    append(blocks_.swap_in(group), step.swap_in);
    queues_.move_to(queued, QueuedGroup::Queue::kRunning);
    append_slots(group, chunks, step);
    step.budget -= static_cast<int>(chunks.size());
    step.num_seqs += static_cast<int>(chunks.size());
    choose_prompts(group, 2, step, chunks);
    step.put(queued).chunks = std::move(chunks);
  }
}

void StepPlanner::schedule_waiting(PlannedStep& step) {
  while (queues_.first_swapped() == nullptr && queues_.first_waiting() != nullptr &&
         step.budget > 0 && has_seat(step)) {
    QueuedGroup& head = *queues_.first_waiting();
    if (indivisible_cost(*head.group) > step.budget || !can_admit(head)) return;
    if (encoders_.awaits_equal(*head.group, queues_)) return;  // what it waits for will be found
    admit(head, step);
    if (!head.group->awaits_encoder()) choose_admitted(head, step);
  }
}

// --- Sequences -----------------------------------------------------------------------------------

// The sequences whose last token alone is not computed. `has_prompts`: the group has others too.
std::vector<SequenceChunk> StepPlanner::choose_decodes(const SequenceGroup& group,
                                                       PlannedStep& step, bool* has_prompts) const {
  std::vector<SequenceChunk> chunks = step.take_spare();
  for (const auto& seq : group.seqs()) {
    if (!may_run(*seq, group)) continue;
    if (seq->num_uncomputed_tokens() > 1) {
      if (has_prompts != nullptr) *has_prompts = true;
    } else if (static_cast<int>(chunks.size()) < step.budget) {
      chunks.push_back({.seq = seq.get(), .tokens = 1});
      if (group.beams() == nullptr)
        chunks.back().blocks = blocks_.blocks_to_append(*seq, seq->length());
    }
  }
  return group.beams() == nullptr ? chunks : beams_.choose(group, std::move(chunks));
}

// Cuts chunks for the sequences with at least `min_tokens` tokens to compute. Their tables cover
// them. Beams that are searched ahead leave their last tokens to choose_decodes(), for all at once.
// Whole prompts are in the budget already: admit() took them off.
void StepPlanner::choose_prompts(const SequenceGroup& group, int min_tokens, PlannedStep& step,
                                 std::vector<SequenceChunk>& chunks) {
  const int left = group.searches_ahead() && group.launched() ? 1 : 0;
  for (const auto& seq : group.seqs()) {
    const int whole = whole_prompt_tokens(*seq, group);
    if (step.budget == 0 && whole == 0) continue;
    if (!may_run(*seq, group) || seq->num_uncomputed_tokens() < std::max(min_tokens, left + 1))
      continue;
    const int more = std::min(step.budget, seq->num_uncomputed_tokens() - left - whole);
    chunks.push_back({.seq = seq.get(), .tokens = whole + more});
    step.budget -= more;
    ++step.num_seqs;
  }
}

// Of a group that has just come in from the waiting ones. Its tables cover its tokens.
void StepPlanner::choose_admitted(const QueuedGroup& queued, PlannedStep& step) const {
  const SequenceGroup& group = *queued.group;
  std::vector<SequenceChunk>& chunks = step.of(queued).chunks;
  if (group.searches_ahead() && group.launched()) {
    chunks = choose_decodes(group, step, nullptr);
    step.budget -= static_cast<int>(chunks.size());
    step.num_seqs += static_cast<int>(chunks.size());
  }
  choose_prompts(group, 1, step, chunks);
}

void StepPlanner::append_slots(const SequenceGroup& group, std::vector<SequenceChunk>& chunks,
                               PlannedStep& step) {
  for (SequenceChunk& chunk : chunks) {
    if (chunk.blocks == 0) continue;
    chunk.old_blocks = blocks_.tables().self(*chunk.seq).size();
    chunk.copies =
        blocks_.append_slots(*chunk.seq, chunk.seq->num_computed_tokens() + chunk.tokens);
    TANDEM_CHECK(chunk.copies.empty() || !group.searches_ahead());
    append(chunk.copies, step.copy);
  }
}

// --- Steps of stages -----------------------------------------------------------------------------

// Steps that are under way at different stages have no group in common.
bool StepPlanner::is_next(const QueuedGroup& queued) const {
  return !steps_.has_lately(queued, config_.stages - 1);
}

// So many of the sequences are in each of the steps that are under way.
int StepPlanner::share_of(int seqs) const { return (seqs + config_.stages - 1) / config_.stages; }

// For a group that comes in: those that wait will be spread over the steps, too, each as one
// sequence at least.
bool StepPlanner::has_seat(const PlannedStep& step) const {
  if (config_.stages == 1) return true;
  const int seqs = queues_.num_running_seqs() + queues_.num_swapped() + queues_.num_waiting();
  return step.num_seqs < share_of(std::min(seqs, config_.max_num_seqs));
}

// --- Blocks and seats ----------------------------------------------------------------------------

// Preempts groups behind the group until `blocks` are free. If there is none left behind it, it has
// to wait, with what it holds: groups before it go on, and take its blocks if they must.
bool StepPlanner::make_room(const QueuedGroup& queued, int blocks, PlannedStep& step) {
  const auto holds_blocks = [](const QueuedGroup* other) { return !other->group->pools_encoder(); };
  while (blocks > blocks_.device().num_free()) {
    step.room = false;
    if (!step.preempting) return false;
    const auto last =
        std::find_if(queues_.running().rbegin(), queues_.running().rend(), holds_blocks);
    if (*last == &queued) {
      // Alone, it fits (check_admissible), unless finished groups have not been freed yet.
      TANDEM_CHECK(std::any_of(std::next(last), queues_.running().rend(), holds_blocks) ||
                       !queues_.finished().empty(),
                   "an admitted group does not fit");
      return false;
    }
    preempt(**last, step);
  }
  return true;
}

// No more sequences than max_num_seqs, and than the budget has tokens: others would only hold
// blocks.
bool StepPlanner::seats_for(const SequenceGroup& group) const {
  if (queues_.running().empty()) return true;
  const auto seqs = std::count_if(group.seqs().begin(), group.seqs().end(),
                                  [](const auto& seq) { return !seq->finished(); });
  return queues_.num_running_seqs() < config_.max_num_batched_tokens &&
         queues_.num_running_seqs() + seqs <= config_.max_num_seqs;
}

// A group that was preempted comes back only if every running sequence could have another block:
// otherwise it would soon be preempted again.
bool StepPlanner::keeps_headroom(const SequenceGroup& group, int blocks) const {
  int headroom = 0;
  if (group.num_preemptions > 0) {
    const auto pooled =
        std::count_if(queues_.running().begin(), queues_.running().end(),
                      [](const QueuedGroup* queued) { return queued->group->pools_encoder(); });
    headroom = queues_.num_running_seqs() - static_cast<int>(pooled);
  }
  return blocks + headroom <= blocks_.device().num_free();
}

bool StepPlanner::can_admit(const QueuedGroup& queued) const {
  const SequenceGroup& group = *queued.group;
  if (group.pools_encoder()) return seats_for(group);
  return may_return(group) && seats_for(group) && blocks_.can_allocate(group) == AllocStatus::kOk &&
         keeps_headroom(group, blocks_.blocks_to_start(group));
}

// The tokens that its encoder and its whole prompts would take, if it came in now; at most these:
// a part of a prompt may be found.
int StepPlanner::indivisible_cost(const SequenceGroup& group) const {
  const bool found = !group.pools_encoder() && blocks_.finds_encoder(group);
  if (encoders_.enabled() && !found) return 0;
  return (found ? 0 : group.encoder_seq().length()) + whole_prompt_tokens(group);
}

// Waiting → running, with its encoder in this step if its result is not there, and its whole
// prompts. Where encoders run elsewhere, it waits for its own, and is not in the step. What is
// longer than the budget takes all of it. Sequences begin behind what was found.
void StepPlanner::admit(QueuedGroup& queued, PlannedStep& step) {
  SequenceGroup& group = *queued.group;
  const auto start = group.pools_encoder()
                         ? BlockManager::Start{.computed_tokens = {0}}
                         : blocks_.allocate(group, /*encoder_runs_now=*/!encoders_.enabled());
  for (size_t i = 0; i < group.seqs().size(); ++i)
    if (start.computed_tokens[i] > 0) group.seqs()[i]->advance(start.computed_tokens[i]);
  queues_.move_to(queued, QueuedGroup::Queue::kRunning);
  if (encoders_.enabled() && !start.encoder_found) return EncoderSteps::add(group);
  step.put(queued).compute_encoder = !start.encoder_found;
  if (start.encoder_found) group.set_encoder_computed(true);
  const int encoder = start.encoder_found ? 0 : group.encoder_seq().length();
  step.budget = std::max(0, step.budget - encoder - whole_prompt_tokens(group));
}

// --- Preemption ----------------------------------------------------------------------------------

// Running → swapped or waiting: the blocks go to the host pool, or are computed again
// (docs/design/scheduling.md §4). The group is not in the step.
void StepPlanner::preempt(QueuedGroup& queued, PlannedStep& step) {
  TANDEM_CHECK_LT(queued.planned_index, 0);
  SequenceGroup& group = *queued.group;
  ++num_preemptions_;
  ++group.num_preemptions;
  proto::RequestPreempted& preempted = preempted_.emplace_back();
  preempted.set_request_id(group.request_id());
  preempted.set_seq_id(group.seqs()[0]->seq_id());
  group.set_announced(false);  // it comes back with other blocks
  if (prefers_swap(group) && blocks_.can_swap_out(group)) {
    const BlockPairs pairs = blocks_.swap_out(group);
    step.swap_out.insert(step.swap_out.end(), pairs.begin(), pairs.end());
    queues_.move_to(queued, QueuedGroup::Queue::kSwapped);
    return;
  }
  recompute(queued);
  queues_.move_to(queued, QueuedGroup::Queue::kWaiting);
}

void StepPlanner::recompute(QueuedGroup& queued) {
  SequenceGroup& group = *queued.group;
  encoders_.forget(queued);
  blocks_.free_all(group);
  group.set_encoder_computed(false);
  for (const auto& seq : group.seqs())
    if (!seq->finished()) seq->reset_computed();
  if (BeamState* beams = group.beams()) {  // all of them are computed anew
    ++beams->epoch;
    for (auto& candidates : beams->candidates) candidates.clear();
    for (const auto& seq : group.seqs()) seq->drop_pending();
  }
}

// The cost model of PreemptionMode::kAuto, in units of the time to compute one token. Swapping
// moves whole blocks out and back; recomputing runs the encoder and all decoder tokens again.
bool StepPlanner::prefers_swap(const SequenceGroup& group) const {
  if (group.awaits_encoder()) return false;
  if (config_.preemption != PreemptionMode::kAuto)
    return config_.preemption == PreemptionMode::kSwap;
  int64_t recomputed = group.encoder_seq().length();
  for (const auto& seq : group.seqs())
    if (!seq->finished()) recomputed += seq->num_computed_tokens();
  const int64_t moved = int64_t{blocks_.tables().num_blocks(group)} * config_.block_size;
  return config_.swap_cost * static_cast<double>(moved) < static_cast<double>(recomputed);
}

}  // namespace tandem
