// schedule(): the passes over running, swapped and waiting groups, and preemption. The message is
// written in scheduler_message.cc.
//
// Order matters for the data as well. Workers swap out before they swap in, and copy last, so
// within one step no group is swapped in after another was swapped out (Step::room), and a group is
// preempted only before it was given blocks in this step.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

namespace {

// A sequence that has all the tokens it may have waits for someone to finish it; a beam that has
// been computed waits for the others.
bool may_run(const Sequence& seq, const SequenceGroup& group) {
  if (seq.finished() || group.pools() || seq.output_len() >= group.params().max_tokens())
    return false;
  return group.beams() == nullptr ||
         (!group.waits_for_fork(seq) && seq.num_uncomputed_tokens() > 0);
}

// A group travels in full when it comes in, so all its tokens must be known.
bool may_return(const SequenceGroup& group) {
  return !group.has_pending_tokens() && !group.awaits_candidates();
}

}  // namespace

proto::StepInput Scheduler::schedule(double now) {
  proto::StepInput message;
  schedule(now, message);
  return message;
}

void Scheduler::schedule(double now, proto::StepInput& message) {
  const auto in_flight = static_cast<size_t>(config_.max_steps_in_flight);
  while (steps_.size() >= in_flight && steps_.front().gone()) pop_step();
  TANDEM_CHECK(steps_.size() < in_flight, "the oldest step was not completed");
  Step step{.now = now, .budget = config_.max_num_batched_tokens, .message = message};

  Entry* const turn = encoder_turn_due() ? *waiting_.begin() : nullptr;
  if (turn != nullptr) {
    admit(*turn, step);
    step.preempting = false;  // or it could preempt the group that was just admitted
  }
  schedule_running(step);
  if (turn != nullptr) {
    auto& chunks = step_groups_[static_cast<size_t>(turn->step_index)].chunks;
    choose_admitted(*turn->group, step, chunks);
  } else if (step.room) {
    schedule_swapped(step);
    schedule_waiting(step);
  }
  last_was_turn_ = turn != nullptr;
  last_lacked_room_ = !step.room;
  write_message(step);
}

// --- Passes --------------------------------------------------------------------------------------

// The first waiting group could come in, but its encoder does not fit beside the running sequences
// (each of which needs at least one token, unless it waits for its last ones). Running sequences
// get every other step at least.
bool Scheduler::encoder_turn_due() const {
  if (waiting_.empty() || !swapped_.empty()) return false;
  // Those that are pooled wait for their step only.
  const bool others = std::any_of(running_.begin(), running_.end(),
                                  [](const Entry* entry) { return !entry->group->pools(); });
  if (others && (last_was_turn_ || last_lacked_room_)) return false;
  const Entry& head = **waiting_.begin();
  const int encoder = encoder_cost(*head.group);
  const int64_t left = int64_t{config_.max_num_batched_tokens} - encoder;
  if (encoder == 0 || num_running_seqs_ <= left || !can_admit(head)) return false;
  int64_t able = 0;
  for (const Entry* entry : running_)
    for (const auto& seq : entry->group->seqs()) able += may_run(*seq, *entry->group);
  return able > left;
}

void Scheduler::schedule_running(Step& step) {
  std::vector<Entry*> prompts;
  for (size_t i = 0; i < running_.size() && step.budget > 0; ++i) {
    Entry& entry = *running_[i];
    if (entry.step_index >= 0) continue;
    bool has_prompts = false;
    std::vector<Chunk> chunks = choose_decodes(*entry.group, step.budget, &has_prompts);
    if (has_prompts) prompts.push_back(&entry);
    if (chunks.empty() || !make_room(entry, blocks_to_append(chunks), step)) continue;
    append_slots(*entry.group, chunks, step);
    step.budget -= static_cast<int>(chunks.size());
    put_in_step(entry, step).chunks = std::move(chunks);
  }
  // Preemption strikes behind the group that needs blocks, so these still run.
  for (Entry* entry : prompts) {
    if (step.budget == 0) break;
    choose_prompts(*entry->group, 2, step.budget, put_in_step(*entry, step).chunks);
  }
}

void Scheduler::schedule_swapped(Step& step) {
  while (!swapped_.empty() && step.budget > 0) {
    Entry& entry = **swapped_.begin();
    const SequenceGroup& group = *entry.group;
    std::vector<Chunk> chunks = choose_decodes(group, step.budget, nullptr);
    const int blocks = blocks_.num_blocks(group) + blocks_to_append(chunks);
    if (!may_return(group) || !seats_for(group) || blocks_.can_swap_in(group) != AllocStatus::kOk ||
        !keeps_headroom(group, blocks))
      return;
    write_pairs(blocks_.swap_in(group), *step.message.mutable_swap_in());
    run(entry);
    append_slots(group, chunks, step);
    step.budget -= static_cast<int>(chunks.size());
    choose_prompts(group, 2, step.budget, chunks);
    put_in_step(entry, step).chunks = std::move(chunks);
  }
}

void Scheduler::schedule_waiting(Step& step) {
  while (swapped_.empty() && !waiting_.empty() && step.budget > 0) {
    Entry& head = **waiting_.begin();
    if (encoder_cost(*head.group) > step.budget || !can_admit(head)) return;
    admit(head, step);
    auto& chunks = step_groups_[static_cast<size_t>(head.step_index)].chunks;
    choose_admitted(*head.group, step, chunks);
  }
}

// --- Sequences -----------------------------------------------------------------------------------

// The sequences whose last token alone is not computed. `has_prompts`: the group has others too.
std::vector<Scheduler::Chunk> Scheduler::choose_decodes(const SequenceGroup& group, int budget,
                                                        bool* has_prompts) {
  std::vector<Chunk> chunks;
  if (!spare_chunks_.empty()) {
    chunks = std::move(spare_chunks_.back());
    spare_chunks_.pop_back();
  }
  for (const auto& seq : group.seqs()) {
    if (!may_run(*seq, group)) continue;
    if (seq->num_uncomputed_tokens() > 1) {
      if (has_prompts != nullptr) *has_prompts = true;
    } else if (static_cast<int>(chunks.size()) < budget) {
      chunks.push_back({.seq = seq.get(), .tokens = 1, .copies = {}});
      if (group.beams() == nullptr)
        chunks.back().blocks = blocks_.blocks_to_append(*seq, seq->length());
    }
  }
  return group.beams() == nullptr ? chunks : choose_beams(group, std::move(chunks));
}

// Cuts chunks for the sequences with at least `min_tokens` tokens to compute. Their tables cover
// them. Beams that are searched ahead leave their last tokens to choose_decodes(), for all at once.
void Scheduler::choose_prompts(const SequenceGroup& group, int min_tokens, int& budget,
                               std::vector<Chunk>& chunks) const {
  const int left = group.searches_ahead() && group.launched() ? 1 : 0;
  for (const auto& seq : group.seqs()) {
    if (budget == 0) return;
    if (!may_run(*seq, group) || seq->num_uncomputed_tokens() < std::max(min_tokens, left + 1))
      continue;
    const int tokens = std::min(budget, seq->num_uncomputed_tokens() - left);
    chunks.push_back({.seq = seq.get(), .tokens = tokens, .copies = {}});
    budget -= tokens;
  }
}

// Of a group that has just come in from the waiting ones. Its tables cover its tokens.
void Scheduler::choose_admitted(const SequenceGroup& group, Step& step,
                                std::vector<Chunk>& chunks) {
  if (group.searches_ahead() && group.launched()) {
    chunks = choose_decodes(group, step.budget, nullptr);
    step.budget -= static_cast<int>(chunks.size());
  }
  choose_prompts(group, 1, step.budget, chunks);
}

int Scheduler::blocks_to_append(const std::vector<Chunk>& chunks) const {
  int blocks = 0;
  for (const Chunk& chunk : chunks) blocks += chunk.blocks;
  return blocks;
}

void Scheduler::append_slots(const SequenceGroup& group, std::vector<Chunk>& chunks, Step& step) {
  for (Chunk& chunk : chunks) {
    if (chunk.blocks == 0) continue;
    chunk.old_blocks = blocks_.get_block_table(*chunk.seq).size();
    chunk.copies =
        blocks_.append_slots(*chunk.seq, chunk.seq->num_computed_tokens() + chunk.tokens);
    TANDEM_CHECK(chunk.copies.empty() || !group.searches_ahead());
    write_pairs(chunk.copies, *step.message.mutable_copy());
  }
}

Scheduler::StepGroup& Scheduler::put_in_step(Entry& entry, Step& step) {
  if (entry.step_index < 0) {
    entry.step_index = static_cast<int>(step_groups_.size());
    SequenceGroup& group = *entry.group;
    step_groups_.push_back({&entry, !group.announced(), false, {}});
    if (!group.first_scheduled_time) group.first_scheduled_time = step.now;
  }
  return step_groups_[static_cast<size_t>(entry.step_index)];
}

// --- Blocks and seats ----------------------------------------------------------------------------

// Preempts groups behind `entry` until `blocks` are free. If there is none left behind it, it has
// to wait, with what it holds: groups before it go on, and take its blocks if they must.
bool Scheduler::make_room(const Entry& entry, int blocks, Step& step) {
  const auto holds_blocks = [](const Entry* other) { return !other->group->pools(); };
  while (blocks > blocks_.num_free_device_blocks()) {
    step.room = false;
    if (!step.preempting) return false;
    const auto last = std::find_if(running_.rbegin(), running_.rend(), holds_blocks);
    if (*last == &entry) {
      // Alone, it fits (check_admissible), unless finished groups have not been freed yet.
      TANDEM_CHECK(
          std::any_of(std::next(last), running_.rend(), holds_blocks) || !finished_.empty(),
          "an admitted group does not fit");
      return false;
    }
    preempt(**last, step);
  }
  return true;
}

// No more sequences than max_num_seqs, and than the budget has tokens: others would only hold
// blocks.
bool Scheduler::seats_for(const SequenceGroup& group) const {
  if (running_.empty()) return true;
  const auto seqs = std::count_if(group.seqs().begin(), group.seqs().end(),
                                  [](const auto& seq) { return !seq->finished(); });
  return num_running_seqs_ < config_.max_num_batched_tokens &&
         num_running_seqs_ + seqs <= config_.max_num_seqs;
}

// A group that was preempted comes back only if every running sequence could have another block:
// otherwise it would soon be preempted again.
bool Scheduler::keeps_headroom(const SequenceGroup& group, int blocks) const {
  int headroom = 0;
  if (group.num_preemptions > 0) {
    const auto pooled = std::count_if(running_.begin(), running_.end(),
                                      [](const Entry* entry) { return entry->group->pools(); });
    headroom = num_running_seqs_ - static_cast<int>(pooled);
  }
  return blocks + headroom <= blocks_.num_free_device_blocks();
}

bool Scheduler::can_admit(const Entry& entry) const {
  const SequenceGroup& group = *entry.group;
  if (group.pools()) return seats_for(group);
  return may_return(group) && seats_for(group) && blocks_.can_allocate(group) == AllocStatus::kOk &&
         keeps_headroom(group, blocks_.blocks_to_start(group));
}

// The tokens that its encoder would take, if it came in now.
int Scheduler::encoder_cost(const SequenceGroup& group) const {
  return !group.pools() && blocks_.finds_encoder(group) ? 0 : group.encoder_seq().length();
}

// Waiting → running, with its encoder in this step if its result is not there. One longer than the
// budget takes all of it. Sequences begin behind what was found.
void Scheduler::admit(Entry& entry, Step& step) {
  SequenceGroup& group = *entry.group;
  const auto start =
      group.pools() ? BlockManager::Start{.computed_tokens = {0}} : blocks_.allocate(group);
  for (size_t i = 0; i < group.seqs().size(); ++i)
    if (start.computed_tokens[i] > 0) group.seqs()[i]->advance(start.computed_tokens[i]);
  run(entry);
  put_in_step(entry, step).compute_encoder = !start.encoder_found;
  if (start.encoder_found)
    group.set_encoder_computed(true);
  else
    step.budget = std::max(0, step.budget - group.encoder_seq().length());
}

// --- Preemption ----------------------------------------------------------------------------------

void Scheduler::preempt(Entry& entry, Step& step) {
  TANDEM_CHECK_LT(entry.step_index, 0);
  SequenceGroup& group = *entry.group;
  leave_queue(entry);
  ++num_preemptions_;
  ++group.num_preemptions;
  note_preempted(group);
  group.set_announced(false);  // it comes back with other blocks
  if (prefers_swap(group) && blocks_.can_swap_out(group)) {
    write_pairs(blocks_.swap_out(group), *step.message.mutable_swap_out());
    enter_queue(entry, Queue::kSwapped);
    return;
  }
  free_tables(group);
  group.set_encoder_computed(false);
  for (const auto& seq : group.seqs())
    if (!seq->finished()) seq->reset_computed();
  if (BeamState* beams = group.beams()) {  // all of them are computed anew
    ++beams->epoch;
    for (auto& candidates : beams->candidates) candidates.clear();
    for (const auto& seq : group.seqs()) seq->drop_pending();
  }
  enter_queue(entry, Queue::kWaiting);
}

// The cost model of PreemptionMode::kAuto, in units of the time to compute one token. Swapping
// moves whole blocks out and back; recomputing runs the encoder and all decoder tokens again.
bool Scheduler::prefers_swap(const SequenceGroup& group) const {
  if (config_.preemption != PreemptionMode::kAuto)
    return config_.preemption == PreemptionMode::kSwap;
  int64_t recomputed = group.encoder_seq().length();
  for (const auto& seq : group.seqs())
    if (!seq->finished()) recomputed += seq->num_computed_tokens();
  const int64_t moved = int64_t{blocks_.num_blocks(group)} * config_.block_size;
  return config_.swap_cost * static_cast<double>(moved) < static_cast<double>(recomputed);
}

}  // namespace tandem
