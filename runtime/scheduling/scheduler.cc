// The life of a group in the scheduler: admission, finish, abort. schedule() is in
// scheduler_passes.cc and scheduler_message.cc, complete_step() in scheduler_completion.cc.
//
// Every group is in exactly one queue. Waiting groups hold no blocks, running ones hold device
// blocks, swapped ones host blocks, finished ones their cross blocks until
// free_finished_seq_groups().

#include "runtime/scheduling/scheduler.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "runtime/sampling/token_choice.h"

namespace tandem {

bool Scheduler::Before::operator()(const Entry* a, const Entry* b) const {
  const SequenceGroup& x = *a->group;
  const SequenceGroup& y = *b->group;
  return std::make_tuple(x.priority(), x.arrival_time(), a->ticket) <
         std::make_tuple(y.priority(), y.arrival_time(), b->ticket);
}

Scheduler::Scheduler(const SchedulerConfig& config)
    : config_(config),
      blocks_(config.block_size, config.num_device_blocks, config.num_host_blocks,
              /*watermark=*/0.01, {config.enable_encoder_cache, config.enable_prefix_caching}) {
  TANDEM_CHECK_GT(config.max_num_seqs, 0);
  TANDEM_CHECK_GT(config.max_num_batched_tokens, 0);
  TANDEM_CHECK_GT(config.max_steps_in_flight, 0);
}

// --- Admission -----------------------------------------------------------------------------------

void Scheduler::check_admissible(const SequenceGroup& group) const {
  const int64_t n = static_cast<int64_t>(group.seqs().size());
  const int64_t encoder_len = group.encoder_seq().length();
  if (encoder_len == 0) throw invalid_request("prompt", "has no tokens");
  if (group.pools()) return;
  const int64_t max_tokens = group.params().max_tokens();
  int64_t prompt_len = 0, output_len = 0;  // a group that is resumed has output
  for (const auto& seq : group.seqs()) {
    if (seq->prompt_len() == 0) throw invalid_request("decoder_prompt", "has no tokens");
    prompt_len = std::max<int64_t>(prompt_len, seq->prompt_len());
    output_len = std::max<int64_t>(output_len, seq->output_len());
  }
  if (max_tokens < 1)
    throw invalid_request("max_tokens", std::to_string(max_tokens) + ", must be at least 1");
  if (output_len >= max_tokens)
    throw invalid_request("max_tokens", std::to_string(max_tokens) + ", but a sequence has " +
                                            std::to_string(output_len) + " tokens already");
  const std::string count = group.beams() != nullptr       ? "num_beams"
                            : group.params().best_of() > 0 ? "best_of"
                                                           : "n";
  if (n > config_.max_num_seqs)
    throw InputError(ErrorKind::kResource,
                     count + ": " + std::to_string(n) + " sequences, but max_num_seqs is " +
                         std::to_string(config_.max_num_seqs),
                     count);
  if (group.beams() != nullptr && n > config_.max_num_batched_tokens)
    throw InputError(ErrorKind::kResource,
                     count + ": " + std::to_string(n) +
                         " beams run together, but max_num_batched_tokens is " +
                         std::to_string(config_.max_num_batched_tokens),
                     count);
  const int64_t size = config_.block_size;
  const auto needed = [&](int64_t seqs, int64_t generated) {
    // The last token is sampled, but never fed back. What is generated already counts as such.
    const int64_t longest = prompt_len + generated - 1;
    return (encoder_len + size - 1) / size + seqs * ((longest + size - 1) / size);
  };
  const int64_t total = blocks_.num_total_device_blocks();
  if (needed(n, max_tokens) <= total) return;
  const std::string param = needed(1, 1) > total            ? "prompt"
                            : needed(1, max_tokens) > total ? "max_tokens"
                                                            : count;
  throw InputError(ErrorKind::kResource,
                   param + ": " + std::to_string(encoder_len) + " encoder tokens and " +
                       std::to_string(n) + " x (" + std::to_string(prompt_len) + " prompt + " +
                       std::to_string(max_tokens) + " new) decoder tokens need " +
                       std::to_string(needed(n, max_tokens)) + " blocks of " +
                       std::to_string(size) + " tokens, but the cache has " + std::to_string(total),
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
    TANDEM_CHECK_EQ(seq->num_pending_tokens(), 0);
    TANDEM_CHECK(seq_ids_.insert(seq->seq_id()).second, "sequence ids are unique");
  }
  auto& slot = groups_[group->request_id()];
  slot = std::make_unique<Entry>();
  Entry& entry = *slot;
  if (BeamState* beams = group->beams())
    beams->ahead =
        config_.beam_vocabulary > 0 && searches_ahead(group->params(), config_.beam_vocabulary);
  entry.group = std::move(group);
  entry.ticket = next_ticket_++;
  enter_queue(entry, Queue::kWaiting);
}

bool Scheduler::abort_seq_group(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return false;
  drop(*it->second);
  return true;
}

// --- Finish --------------------------------------------------------------------------------------

void Scheduler::finish_sequence(const std::string& request_id, int64_t seq_id,
                                SequenceStatus status) {
  TANDEM_CHECK(is_finished(status));
  const auto it = groups_.find(request_id);
  if (it == groups_.end()) return;
  Entry& entry = *it->second;
  Sequence* seq = entry.group->find(seq_id);
  if (seq == nullptr || seq->finished()) return;
  if (entry.group->beams() == nullptr) return finish(entry, *seq, status);
  for (const auto& beam : entry.group->seqs()) finish(entry, *beam, status);
}

void Scheduler::finish(Entry& entry, Sequence& seq, SequenceStatus status) {
  seq.set_status(status);
  seq.drop_pending();
  blocks_.free(seq);
  if (entry.queue == Queue::kRunning) --num_running_seqs_;
  if (entry.group->finished()) {
    leave_queue(entry);
    enter_queue(entry, Queue::kFinished);
  } else if (entry.known_to_workers && entry.group->beams() == nullptr) {
    forgotten_seqs_.push_back(seq.seq_id());
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

// Out of the queues, and of memory when no step in flight refers to it; workers hear of it with the
// next step.
void Scheduler::drop(Entry& entry) {
  const SequenceGroup& group = *entry.group;
  leave_queue(entry);
  free_tables(group);
  if (entry.known_to_workers) forgotten_groups_.push_back(group.request_id());
  for (const auto& seq : group.seqs()) seq_ids_.erase(seq->seq_id());
  entry.dropped = true;
  const auto it = groups_.find(group.request_id());
  if (entry.steps_in_flight > 0) dropped_.push_back(std::move(it->second));
  groups_.erase(it);
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
void Scheduler::note_preempted(const SequenceGroup& group) {
  proto::RequestPreempted& preempted = preempted_.emplace_back();
  preempted.set_request_id(group.request_id());
  preempted.set_seq_id(group.seqs()[0]->seq_id());
}
std::vector<proto::RequestPreempted> Scheduler::take_preempted() {
  return std::exchange(preempted_, {});
}

SequenceGroup* Scheduler::find(const std::string& request_id) {
  const auto it = groups_.find(request_id);
  return it == groups_.end() ? nullptr : it->second->group.get();
}

}  // namespace tandem
