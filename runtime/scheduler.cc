// The life of a group in the scheduler: admission, completion, finish, abort. schedule() itself is
// in scheduler_passes.cc.
//
// Every group is in exactly one queue. Waiting groups hold no blocks, running ones hold device
// blocks, swapped ones host blocks, finished ones their cross blocks until
// free_finished_seq_groups().

#include "runtime/scheduler.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>

#include "kernels/core/check.h"
#include "kernels/core/error.h"

namespace tandem {

bool Scheduler::Before::operator()(const Entry* a, const Entry* b) const {
  const SequenceGroup& x = *a->group;
  const SequenceGroup& y = *b->group;
  return std::make_tuple(x.priority(), x.arrival_time(), a->ticket) <
         std::make_tuple(y.priority(), y.arrival_time(), b->ticket);
}

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      blocks_(config.block_size, config.num_device_blocks, config.num_host_blocks) {
  TANDEM_CHECK_GT(config.max_num_seqs, 0);
  TANDEM_CHECK_GT(config.max_num_batched_tokens, 0);
}

// --- Admission -----------------------------------------------------------------------------------

void Scheduler::check_admissible(const SequenceGroup& group) const {
  const int64_t n = static_cast<int64_t>(group.seqs().size());
  const int64_t encoder_len = group.encoder_seq().length();
  const int64_t max_tokens = group.params().max_tokens();
  int64_t prompt_len = 0;
  for (const auto& seq : group.seqs()) {
    if (seq->length() == 0) throw invalid_request("decoder_prompt", "has no tokens");
    prompt_len = std::max<int64_t>(prompt_len, seq->length());
  }
  if (encoder_len == 0) throw invalid_request("prompt", "has no tokens");
  if (max_tokens < 1)
    throw invalid_request("max_tokens", std::to_string(max_tokens) + ", must be at least 1");
  if (n > config_.max_num_seqs)
    throw InputError(ErrorKind::kResource,
                     "n: " + std::to_string(n) + " sequences, but max_num_seqs is " +
                         std::to_string(config_.max_num_seqs),
                     "n");
  const int64_t size = config_.block_size;
  const auto needed = [&](int64_t seqs, int64_t generated) {
    // The last token is sampled, but never fed back.
    const int64_t longest = prompt_len + generated - 1;
    return (encoder_len + size - 1) / size + seqs * ((longest + size - 1) / size);
  };
  const int64_t total = blocks_.num_total_device_blocks();
  if (needed(n, max_tokens) <= total) return;
  const char* param = needed(1, 1) > total            ? "prompt"
                      : needed(1, max_tokens) > total ? "max_tokens"
                                                      : "n";
  throw InputError(ErrorKind::kResource,
                   std::string(param) + ": " + std::to_string(encoder_len) +
                       " encoder tokens and " + std::to_string(n) + " x (" +
                       std::to_string(prompt_len) + " prompt + " + std::to_string(max_tokens) +
                       " new) decoder tokens need " + std::to_string(needed(n, max_tokens)) +
                       " blocks of " + std::to_string(size) + " tokens, but the cache has " +
                       std::to_string(total),
                   param);
}

void Scheduler::add_seq_group(std::unique_ptr<SequenceGroup> group) {
  TANDEM_CHECK(group != nullptr);
  TANDEM_CHECK(!std::isnan(group->arrival_time()));
  check_admissible(*group);
  if (groups_.count(group->request_id()) > 0)
    throw invalid_request("request_id", "\"" + group->request_id() + "\" is in use");
  for (const auto& seq : group->seqs()) {
    TANDEM_CHECK(!seq->finished(), "a new group has no finished sequences");
    TANDEM_CHECK(seq_ids_.insert(seq->seq_id()).second, "sequence ids are unique");
  }
  Entry& entry = groups_[group->request_id()];
  entry.group = std::move(group);
  entry.ticket = next_ticket_++;
  enter_queue(entry, Queue::kWaiting);
}

bool Scheduler::abort_seq_group(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return false;
  drop(it->second);
  return true;
}

// --- Completion ----------------------------------------------------------------------------------

// The sequence's chunk, if it has one. The search starts at `hint`: they mostly come in order.
Scheduler::Chunk* Scheduler::StepGroup::find(int64_t seq_id) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (hint == chunks.size()) hint = 0;
    Chunk& chunk = chunks[hint++];
    if (chunk.seq->seq_id() == seq_id) return &chunk;
  }
  return nullptr;
}

// Where a token belongs; null if its group or sequence has ended meanwhile.
Scheduler::Chunk* Scheduler::find_chunk(const SampledToken& token) {
  const auto it = groups_.find(token.request_id);
  if (it == groups_.end() || it->second.queue == Queue::kFinished) return nullptr;
  const Entry& entry = it->second;
  const auto fail = [&](const char* what) {
    throw std::runtime_error("step output: request \"" + token.request_id + "\", sequence " +
                             std::to_string(token.seq_id) + ": " + what);
  };
  Chunk* chunk = entry.step_index < 0
                     ? nullptr
                     : step_groups_[static_cast<size_t>(entry.step_index)].find(token.seq_id);
  if (chunk == nullptr) {
    const Sequence* seq = entry.group->find(token.seq_id);
    if (seq == nullptr) fail("unknown sequence");
    if (!seq->finished()) fail("a token, but it was not scheduled");
    return nullptr;
  }
  if (chunk->seq->finished()) return nullptr;
  if (!chunk->samples()) fail("a token, but its prompt is not finished");
  if (chunk->sampled) fail("two tokens");
  return chunk;
}

void Scheduler::complete_step(const std::vector<SampledToken>& sampled) {
  for (StepGroup& scheduled : step_groups_)
    for (Chunk& chunk : scheduled.chunks) chunk.sampled.reset();
  for (const SampledToken& token : sampled)
    if (Chunk* chunk = find_chunk(token)) chunk->sampled = token.token;
  for (const StepGroup& scheduled : step_groups_) {
    if (scheduled.entry == nullptr) continue;
    for (const Chunk& chunk : scheduled.chunks)
      if (!chunk.seq->finished() && chunk.samples() && !chunk.sampled)
        throw std::runtime_error("step output: request \"" + scheduled.entry->group->request_id() +
                                 "\", sequence " + std::to_string(chunk.seq->seq_id()) +
                                 ": no token");
  }
  for (const StepGroup& scheduled : step_groups_) {
    if (scheduled.entry == nullptr) continue;
    scheduled.entry->step_index = -1;
    if (scheduled.compute_encoder) scheduled.entry->group->set_encoder_computed(true);
    for (const Chunk& chunk : scheduled.chunks) {
      if (chunk.seq->finished()) continue;
      chunk.seq->advance(chunk.tokens);
      if (chunk.sampled) chunk.seq->append_token(*chunk.sampled);
    }
  }
  step_groups_.clear();
}

// --- Finish --------------------------------------------------------------------------------------

void Scheduler::finish_sequence(const std::string& request_id, int64_t seq_id,
                                SequenceStatus status) {
  TANDEM_CHECK(is_finished(status));
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return;
  Entry& entry = it->second;
  Sequence* seq = entry.group->find(seq_id);
  if (seq == nullptr || seq->finished()) return;
  seq->set_status(status);
  blocks_.free(*seq);
  if (entry.queue == Queue::kRunning) --num_running_seqs_;
  if (entry.group->finished()) {
    leave_queue(entry);
    enter_queue(entry, Queue::kFinished);
  } else if (entry.known_to_workers) {
    forgotten_seqs_.push_back(seq_id);
  }
}

void Scheduler::free_finished_seq_groups() {
  while (!finished_.empty()) {
    free_seq_group_cross_attn_blocks(*finished_.back()->group);
    drop(*finished_.back());
  }
}

void Scheduler::free_seq_group_cross_attn_blocks(const SequenceGroup& group) {
  blocks_.free_cross(group);
}

void Scheduler::free_tables(const SequenceGroup& group) {
  for (const auto& seq : group.seqs()) blocks_.free(*seq);
  free_seq_group_cross_attn_blocks(group);
}

// Out of the queues, of the step in flight and of memory; workers hear of it with the next step.
void Scheduler::drop(Entry& entry) {
  const SequenceGroup& group = *entry.group;
  leave_queue(entry);
  free_tables(group);
  if (entry.step_index >= 0) step_groups_[static_cast<size_t>(entry.step_index)].entry = nullptr;
  if (entry.known_to_workers) forgotten_groups_.push_back(group.request_id());
  for (const auto& seq : group.seqs()) seq_ids_.erase(seq->seq_id());
  groups_.erase(groups_.find(group.request_id()));
}

// --- Queues --------------------------------------------------------------------------------------

void Scheduler::leave_queue(Entry& entry) {
  switch (entry.queue) {
    case Queue::kWaiting: waiting_.erase(&entry); break;
    case Queue::kSwapped: swapped_.erase(&entry); break;
    case Queue::kFinished: {
      const auto it = std::find(finished_.rbegin(), finished_.rend(), &entry);
      TANDEM_CHECK(it != finished_.rend());
      finished_.erase(std::next(it).base());
      break;
    }
    case Queue::kRunning: {
      const auto it = std::lower_bound(running_.begin(), running_.end(), &entry, Before());
      TANDEM_CHECK(it != running_.end() && *it == &entry);
      running_.erase(it);
      for (const auto& seq : entry.group->seqs()) num_running_seqs_ -= !seq->finished();
      break;
    }
  }
}

void Scheduler::enter_queue(Entry& entry, Queue queue) {
  entry.queue = queue;
  SequenceStatus status = SequenceStatus::kWaiting;
  switch (queue) {
    case Queue::kWaiting: waiting_.insert(&entry); break;
    case Queue::kSwapped:
      swapped_.insert(&entry);
      status = SequenceStatus::kSwapped;
      break;
    case Queue::kFinished: finished_.push_back(&entry); return;
    case Queue::kRunning:
      running_.insert(std::upper_bound(running_.begin(), running_.end(), &entry, Before()), &entry);
      for (const auto& seq : entry.group->seqs()) num_running_seqs_ += !seq->finished();
      status = SequenceStatus::kRunning;
      break;
  }
  for (const auto& seq : entry.group->seqs())
    if (!seq->finished()) seq->set_status(status);
}

// Waiting or swapped → running.
void Scheduler::run(Entry& entry) {
  leave_queue(entry);
  enter_queue(entry, Queue::kRunning);
}

bool Scheduler::has_unfinished() const {
  return !waiting_.empty() || !running_.empty() || !swapped_.empty();
}
int Scheduler::num_waiting() const { return static_cast<int>(waiting_.size()); }
int Scheduler::num_running() const { return static_cast<int>(running_.size()); }
int Scheduler::num_swapped() const { return static_cast<int>(swapped_.size()); }
int Scheduler::num_preemptions() const { return num_preemptions_; }

SequenceGroup* Scheduler::find(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  return it == groups_.end() ? nullptr : it->second.group.get();
}

// --- Integrity -----------------------------------------------------------------------------------

void Scheduler::check_entry(const Entry& entry) const {
  const SequenceGroup& group = *entry.group;
  const bool holds_blocks = entry.queue == Queue::kRunning || entry.queue == Queue::kSwapped;
  TANDEM_CHECK_EQ(group.finished(), entry.queue == Queue::kFinished);
  if (entry.queue != Queue::kFinished) {
    TANDEM_CHECK_EQ(blocks_.has_cross_block_table(group), holds_blocks);
    TANDEM_CHECK_EQ(blocks_.on_host(group), entry.queue == Queue::kSwapped);
    TANDEM_CHECK(entry.queue != Queue::kWaiting || !group.encoder_computed());
  }
  static constexpr SequenceStatus kStatus[] = {SequenceStatus::kWaiting, SequenceStatus::kRunning,
                                               SequenceStatus::kSwapped};
  for (const auto& seq : group.seqs()) {
    TANDEM_CHECK(seq_ids_.count(seq->seq_id()) == 1);
    TANDEM_CHECK_EQ(blocks_.has_block_table(*seq), !seq->finished() && holds_blocks);
    if (seq->finished()) continue;
    TANDEM_CHECK(seq->status() == kStatus[static_cast<size_t>(entry.queue)]);
    TANDEM_CHECK(holds_blocks || seq->num_computed_tokens() == 0);
    if (holds_blocks)
      TANDEM_CHECK_LE(blocks_.blocks_for(seq->num_computed_tokens()),
                      static_cast<int>(blocks_.get_block_table(*seq).size()));
  }
  if (entry.step_index >= 0)
    TANDEM_CHECK(step_groups_[static_cast<size_t>(entry.step_index)].entry == &entry);
}

void Scheduler::check_integrity() const {
  blocks_.check_integrity();
  int running_seqs = 0;
  for (const auto& [id, entry] : groups_) {
    TANDEM_CHECK_EQ(id, entry.group->request_id());
    check_entry(entry);
    if (entry.queue == Queue::kRunning)
      running_seqs += static_cast<int>(entry.group->unfinished_seqs().size());
  }
  TANDEM_CHECK_EQ(running_seqs, num_running_seqs_);
  TANDEM_CHECK(running_seqs <= config_.max_num_seqs);
  TANDEM_CHECK_EQ(groups_.size(),
                  waiting_.size() + running_.size() + swapped_.size() + finished_.size());
  for (const Entry* entry : waiting_) TANDEM_CHECK(entry->queue == Queue::kWaiting);
  for (const Entry* entry : swapped_) TANDEM_CHECK(entry->queue == Queue::kSwapped);
  for (const Entry* entry : finished_) TANDEM_CHECK(entry->queue == Queue::kFinished);
  for (const Entry* entry : running_) TANDEM_CHECK(entry->queue == Queue::kRunning);
  TANDEM_CHECK(std::is_sorted(running_.begin(), running_.end(), Before()));
  for (const StepGroup& scheduled : step_groups_)
    if (scheduled.entry != nullptr)
      TANDEM_CHECK(&step_groups_[static_cast<size_t>(scheduled.entry->step_index)] == &scheduled);
}

}  // namespace tandem
