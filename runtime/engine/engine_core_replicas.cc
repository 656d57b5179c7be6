// Routing, steps, and what happens to requests when a replica goes down (engine_core.h).

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/engine/engine_core.h"

namespace tandem {

void EngineCore::to_replica(int replica, proto::SchedulerCommand command) {
  command.set_generation(replicas_[static_cast<size_t>(replica)].generation);
  outbox_.to_scheduler(replica, std::move(command));
}

// --- Routing -------------------------------------------------------------------------------------

// Held requests go to the replica with the fewest requests, in their order.
void EngineCore::dispatch() {
  while (!held_.empty()) {
    int best = -1;
    for (size_t i = 0; i < replicas_.size(); ++i)
      if (replicas_[i].takes_requests() &&
          (best < 0 ||
           replicas_[i].running.size() < replicas_[static_cast<size_t>(best)].running.size()))
        best = static_cast<int>(i);
    if (best < 0) return;
    const std::string id = std::move(held_.front());
    held_.pop_front();
    start(id, entries_.at(id), best);
  }
}

void EngineCore::start(const std::string& id, Entry& entry, int replica) {
  RequestState& state = *entry.state;
  state.set_first_seq_id(next_seq_id_);
  next_seq_id_ += state.num_seq_ids();
  entry.phase = Phase::kRunning;
  entry.replica = replica;
  replicas_[static_cast<size_t>(replica)].running.emplace(id, &entry);
  proto::SchedulerCommand command;
  *command.mutable_add() = state.add_request();
  command.mutable_add()->set_alone(replicas_[static_cast<size_t>(replica)].on_trial == id);
  to_replica(replica, std::move(command));
}

// The next suspect of a replica runs alone; when there is none left, all may come.
void EngineCore::next_trial(int index) {
  Replica& replica = replicas_[static_cast<size_t>(index)];
  if (!replica.up || replica.on_trial) return;
  if (replica.suspects.empty()) {
    dispatch();
    return;
  }
  const std::string id = std::move(replica.suspects.front());
  replica.suspects.pop_front();
  Entry& entry = entries_.at(id);
  entry.probation_tokens = entry.state->num_output_tokens() + kProbationTokens;
  replica.on_trial = id;
  start(id, entry, index);
}

// Cleared: if other suspects are to run alone, it goes on when they have had their turns, or at
// another replica.
void EngineCore::make_way(const std::string& id, Entry& entry) {
  Replica& replica = replicas_[static_cast<size_t>(entry.replica)];
  entry.crashes = 0;
  if (replica.suspects.empty()) {
    const int index = entry.replica;
    replica.on_trial.reset();
    next_trial(index);
    return;
  }
  leave_replica(id, entry);
  entry.phase = Phase::kHeld;
  const auto later = std::find_if(held_.begin(), held_.end(), [&](const std::string& other) {
    return entries_.at(other).arrival > entry.arrival;
  });
  held_.insert(later, id);
  dispatch();
}

// Takes an unfinished entry from wherever it is; its phase is the caller's to set. The scheduler
// forgets it, if it has it.
void EngineCore::leave_replica(const std::string& id, Entry& entry) {
  if (entry.phase == Phase::kHeld) held_.erase(std::find(held_.begin(), held_.end(), id));
  if (entry.phase == Phase::kRunning || entry.phase == Phase::kSuspect) {
    const int index = entry.replica;
    Replica& replica = replicas_[static_cast<size_t>(index)];
    if (entry.phase == Phase::kSuspect) {
      replica.suspects.erase(std::find(replica.suspects.begin(), replica.suspects.end(), id));
    } else {
      replica.running.erase(id);
      if (!entry.state->finished()) {
        proto::SchedulerCommand command;
        command.set_abort_request_id(id);
        to_replica(index, std::move(command));
      }
    }
    entry.replica = -1;
    entry.phase = Phase::kPreparing;
    if (replica.on_trial == id) {
      replica.on_trial.reset();
      next_trial(index);
    }
  }
  entry.phase = Phase::kPreparing;
}

// --- Events --------------------------------------------------------------------------------------

// Null if the event is of a group that is no more.
EngineCore::Replica* EngineCore::replica_of(const proto::SchedulerEvent& event) {
  TANDEM_CHECK(event.replica() >= 0 && static_cast<size_t>(event.replica()) < replicas_.size());
  Replica& replica = replicas_[static_cast<size_t>(event.replica())];
  return replica.up && event.generation() == replica.generation ? &replica : nullptr;
}

void EngineCore::replica_event(const proto::SchedulerEvent& event, double now) {
  Replica* current = replica_of(event);
  if (event.has_up()) {
    Replica& replica = replicas_[static_cast<size_t>(event.replica())];
    TANDEM_CHECK(!replica.up, "a replica came up twice");
    TANDEM_CHECK_GT(event.generation(), replica.generation);
    replica.up = true;
    replica.generation = event.generation();
    replica.stats = event.stats();
    next_trial(event.replica());
  } else if (current != nullptr && event.has_rejected()) {
    const auto it = current->running.find(event.rejected().request_id());
    if (it != current->running.end() && it->second->state->owns(event.rejected().seq_id())) {
      Entry& entry = *it->second;
      entry.error = event.rejected().error();
      finish(event.rejected().request_id(), entry, now);
    }
  } else if (current != nullptr && event.has_down()) {
    on_down(event.replica(), event.down(), now);
  }
  flush_all(now);
}

void EngineCore::replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                              double now) {
  Replica* replica = replica_of(event);
  if (replica == nullptr) return;
  replica->stats = event.stats();
  for (const proto::RequestPreempted& preempted : event.preempted()) {
    const auto it = replica->running.find(preempted.request_id());
    if (it != replica->running.end() && it->second->state->owns(preempted.seq_id()))
      it->second->state->add_preemption();
  }
  for (const proto::SequenceGroupOutput& output : step.outputs())
    on_output(event.replica(), output, event.scheduled_at(), now);
  for (const proto::BeamResult& result : event.beam_results())
    on_beam_result(event.replica(), result, now);
  flush_all(now);
}

void EngineCore::on_output(int index, const proto::SequenceGroupOutput& output, double scheduled_at,
                           double now) {
  Replica& replica = replicas_[static_cast<size_t>(index)];
  const auto it = replica.running.find(output.request_id());
  if (it == replica.running.end() || !it->second->state->owns(output.seq_id())) return;
  Entry& entry = *it->second;
  const std::string& id = output.request_id();
  for (const auto& [seq_id, status] : entry.state->apply(output, scheduled_at, now)) {
    if (entry.state->finished()) break;  // the whole group ends below
    proto::SchedulerCommand command;
    command.mutable_finish_sequence()->set_request_id(id);
    command.mutable_finish_sequence()->set_seq_id(seq_id);
    to_replica(index, std::move(command));
  }
  admission_.progress(entry.ticket, entry.state->num_output_tokens(), now);
  if (entry.state->finished()) {
    proto::SchedulerCommand command;  // the scheduler may not know: a stop string
    command.set_abort_request_id(id);
    to_replica(index, std::move(command));
    finish(id, entry, now);
    return;
  }
  mark_news(id, entry);
  if (replica.on_trial == id && entry.state->num_output_tokens() >= entry.probation_tokens)
    make_way(id, entry);
}

void EngineCore::on_beam_result(int index, const proto::BeamResult& result, double now) {
  Replica& replica = replicas_[static_cast<size_t>(index)];
  const auto it = replica.running.find(result.request_id());
  if (it == replica.running.end() || !it->second->state->owns(result.seq_id())) return;
  Entry& entry = *it->second;
  entry.state->finish_beams(result, now);
  finish(result.request_id(), entry, now);
}

void EngineCore::on_down(int index, const proto::ReplicaDown& down, double now) {
  Replica& replica = replicas_[static_cast<size_t>(index)];
  replica.up = false;
  const std::optional<std::string> trial = std::exchange(replica.on_trial, std::nullopt);
  // While one is on trial, no other of its replica's requests is in a step, but one that has left
  // may be: then the crash tells nothing about the one on trial, which has not started.
  std::vector<std::string> suspects;
  if (down.crashed())
    suspects.assign(down.in_flight_request_ids().begin(), down.in_flight_request_ids().end());
  std::vector<std::pair<double, std::string>> back;  // by arrival
  auto running = std::exchange(replica.running, {});
  for (const std::string& id : suspects) {
    const auto it = running.find(id);
    if (it == running.end()) continue;
    Entry& entry = *it->second;
    running.erase(it);
    if (++entry.crashes < 2) {
      entry.phase = Phase::kSuspect;
      replica.suspects.push_back(id);
      continue;
    }
    entry.replica = -1;
    entry.phase = Phase::kPreparing;
    fail(id, entry,
         InputError(
             ErrorKind::kInternal,
             "the request crashed the workers twice and is not tried again (" + down.cause() + ")"),
         now);
  }
  for (const auto& [id, entry] : running) {
    entry->replica = -1;
    entry->phase = Phase::kHeld;
    back.emplace_back(entry->arrival, id);
  }
  if (trial && running.count(*trial) > 0) {
    // Not its doing, but it has not been cleared either.
    Entry& entry = *running.at(*trial);
    entry.phase = Phase::kSuspect;
    entry.replica = index;
    replica.suspects.push_front(*trial);
    std::erase_if(back, [&](const auto& b) { return b.second == *trial; });
  }
  std::sort(back.begin(), back.end());
  for (auto it = back.rbegin(); it != back.rend(); ++it) held_.push_front(std::move(it->second));
  dispatch();
}

void EngineCore::give_up(const std::string& reason, double now) {
  given_up_ = reason;
  for (Replica& replica : replicas_) {
    replica.up = false;
    replica.running.clear();
    replica.suspects.clear();
    replica.on_trial.reset();
  }
  held_.clear();
  for (auto& [id, entry] : entries_) {
    if (entry.phase == Phase::kDone || entry.phase == Phase::kPreparing) continue;
    entry.replica = -1;
    entry.phase = Phase::kPreparing;
    fail(id, entry, InputError(ErrorKind::kUnavailable, reason), now);
  }
  flush_all(now);
}

void EngineCore::fill_info(proto::ServerInfo& info, double now) {
  info.set_num_requests(static_cast<int>(num_unfinished_));
  info.set_draining(draining_);
  info.set_expected_wait(admission_.expected_wait(now));
  info.set_until_next_end(admission_.until_next_end(now));
  info.set_refused_queue_time(refused_queue_time_);
  info.set_refused_deadline(refused_deadline_);
  info.set_refused_full(refused_full_);
  for (const Replica& replica : replicas_) {
    proto::ReplicaInfo& out = *info.add_replicas();
    out.set_up(replica.up);
    out.set_generation(replica.generation);
    out.set_num_requests(static_cast<int>(replica.running.size()));
    *out.mutable_stats() = replica.stats;
  }
}

}  // namespace tandem
