#include "runtime/engine/core/replica_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tandem {

ReplicaTable::ReplicaTable(int num_replicas, EngineOutbox& outbox, int most_seats)
    : outbox_(outbox), most_seats_(most_seats), replicas_(static_cast<size_t>(num_replicas)) {
  TANDEM_CHECK_GT(num_replicas, 0);
}

void ReplicaTable::tell(int replica, proto::SchedulerCommand command) {
  command.set_generation(at(replica).generation);
  outbox_.to_scheduler(replica, std::move(command));
}

// --- Replicas ------------------------------------------------------------------------------------

bool ReplicaTable::knows(const proto::SchedulerEvent& event) const {
  TANDEM_CHECK(event.replica() >= 0 && static_cast<size_t>(event.replica()) < replicas_.size());
  const Replica& replica = replicas_[static_cast<size_t>(event.replica())];
  return replica.up && event.generation() == replica.generation;
}

void ReplicaTable::up(const proto::SchedulerEvent& event) {
  Replica& replica = at(event.replica());
  TANDEM_CHECK(!replica.up, "a replica came up twice");
  TANDEM_CHECK_GT(event.generation(), replica.generation);
  replica.up = true;
  replica.generation = event.generation();
  replica.stats = event.stats();
  start_next_trial(event.replica());
}

ReplicaTable::Displaced ReplicaTable::down(int index, const proto::ReplicaDown& down) {
  Replica& replica = at(index);
  replica.up = false;
  RequestRecord* trial = std::exchange(replica.on_trial, nullptr);
  auto running = std::exchange(replica.running, {});
  for (const auto& [id, record] : running) free_seats(replica, *record);
  Displaced out;
  // While one is on trial, no other of its replica's requests is in a step, but one that has left
  // may be: then the crash tells nothing about the one on trial, which has not started.
  for (const std::string& id : down.in_flight_request_ids()) {
    const auto it = running.find(id);
    if (!down.crashed() || it == running.end()) continue;
    RequestRecord& record = *it->second;
    running.erase(it);
    if (++record.crashes < 2) {
      record.stage = RequestStage::kSuspect;
      replica.suspects.push_back(&record);
    } else {
      record.stage = RequestStage::kMoving;
      record.replica = -1;
      out.crashed_again.push_back(&record);
    }
  }
  for (const auto& [id, record] : running) {
    if (record == trial) {  // not its doing, but it has not been cleared either
      record->stage = RequestStage::kSuspect;
      replica.suspects.push_front(record);
      continue;
    }
    record->stage = RequestStage::kMoving;
    record->replica = -1;
    out.innocent.push_back(record);
  }
  return out;
}

void ReplicaTable::give_up() {
  for (Replica& replica : replicas_) {
    replica.up = false;
    replica.on_trial = nullptr;
    auto gone = std::exchange(replica.suspects, {});
    for (const auto& [id, record] : std::exchange(replica.running, {})) {
      free_seats(replica, *record);
      gone.push_back(record);
    }
    for (RequestRecord* record : gone) {
      record->stage = RequestStage::kMoving;
      record->replica = -1;
    }
  }
}

void ReplicaTable::set_stats(int replica, const proto::SchedulerStats& stats) {
  at(replica).stats = stats;
}

// --- Requests ------------------------------------------------------------------------------------

RequestRecord* ReplicaTable::running(int replica, const std::string& id, int64_t seq_id) const {
  const auto& running = replicas_[static_cast<size_t>(replica)].running;
  const auto it = running.find(id);
  return it != running.end() && it->second->state->owns(seq_id) ? it->second : nullptr;
}

// Less urgent requests do not count: it would come before them. One that wants more than there is
// room for waits until it is alone.
bool ReplicaTable::has_room(const Replica& replica, const RequestRecord& record) const {
  if (most_seats_ <= 0) return true;
  int taken = 0;
  for (const auto& [priority, seats] : replica.seats)
    if (priority <= record.priority) taken += seats;
  return taken == 0 || taken + record.ticket.sequences <= most_seats_;
}

void ReplicaTable::free_seats(Replica& replica, RequestRecord& record) {
  const auto it = replica.seats.find(record.priority);
  it->second -= std::exchange(record.seats, 0);
  if (it->second == 0) replica.seats.erase(it);
}

std::optional<int> ReplicaTable::least_loaded(const RequestRecord& record) const {
  std::optional<int> best;
  for (size_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].takes_requests() && has_room(replicas_[i], record) &&
        (!best ||
         replicas_[i].running.size() < replicas_[static_cast<size_t>(*best)].running.size()))
      best = static_cast<int>(i);
  return best;
}

void ReplicaTable::start(RequestRecord& record, int replica) {
  record.state->set_first_seq_id(next_seq_id_);
  next_seq_id_ += record.state->num_seq_ids();
  record.stage = RequestStage::kRunning;
  record.replica = replica;
  at(replica).running.emplace(record.id, &record);
  record.seats = std::max(1, record.ticket.sequences);
  at(replica).seats[record.priority] += record.seats;
  proto::SchedulerCommand command;
  *command.mutable_add() = record.state->add_request();
  command.mutable_add()->set_alone(at(replica).on_trial == &record);
  tell(replica, std::move(command));
}

void ReplicaTable::start_next_trial(int index) {
  Replica& replica = at(index);
  if (!replica.up || replica.on_trial != nullptr || replica.suspects.empty()) return;
  RequestRecord& record = *replica.suspects.front();
  replica.suspects.pop_front();
  record.probation_tokens = record.state->num_output_tokens() + kProbationTokens;
  replica.on_trial = &record;
  start(record, index);
}

void ReplicaTable::finish_sequence(const RequestRecord& record, int64_t seq_id) {
  proto::SchedulerCommand command;
  command.mutable_finish_sequence()->set_request_id(record.id);
  command.mutable_finish_sequence()->set_seq_id(seq_id);
  tell(record.replica, std::move(command));
}

void ReplicaTable::leave(RequestRecord& record) {
  const int index = std::exchange(record.replica, -1);
  Replica& replica = at(index);
  if (record.stage == RequestStage::kSuspect) {
    replica.suspects.erase(std::find(replica.suspects.begin(), replica.suspects.end(), &record));
  } else {
    TANDEM_CHECK(record.stage == RequestStage::kRunning);
    replica.running.erase(record.id);
    free_seats(replica, record);
    // A beam search has ended there; of a stop string the scheduler does not know.
    if (!record.state->finished() || !uses_beams(record.state->params())) {
      proto::SchedulerCommand command;
      command.set_abort_request_id(record.id);
      tell(index, std::move(command));
    }
  }
  record.stage = RequestStage::kMoving;
  if (replica.on_trial == &record) {
    replica.on_trial = nullptr;
    start_next_trial(index);
  }
}

bool ReplicaTable::makes_way(RequestRecord& record) {
  Replica& replica = at(record.replica);
  if (replica.on_trial != &record || record.state->num_output_tokens() < record.probation_tokens)
    return false;
  record.crashes = 0;
  if (replica.suspects.empty()) {
    replica.on_trial = nullptr;
    return false;
  }
  leave(record);
  return true;
}

// --- All -----------------------------------------------------------------------------------------

void ReplicaTable::fill_info(proto::ServerInfo& info, size_t num_held) const {
  size_t left = replicas_.size();
  for (const Replica& replica : replicas_) {
    proto::ReplicaInfo& out = *info.add_replicas();
    out.set_up(replica.up);
    out.set_generation(replica.generation);
    out.set_num_requests(static_cast<int>(replica.running.size()));
    *out.mutable_stats() = replica.stats;
    const size_t here = num_held / left--;
    num_held -= here;
    out.mutable_stats()->set_num_waiting(replica.stats.num_waiting() + static_cast<int>(here));
  }
}

void ReplicaTable::check_integrity(const std::vector<const RequestRecord*>& records) const {
  size_t running = 0, suspects = 0;
  for (const RequestRecord* record : records) {
    running += record->stage == RequestStage::kRunning;
    suspects += record->stage == RequestStage::kSuspect;
    TANDEM_CHECK_EQ(record->replica >= 0, record->stage == RequestStage::kRunning ||
                                              record->stage == RequestStage::kSuspect);
  }
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    running -= replica.running.size();
    suspects -= replica.suspects.size();
    TANDEM_CHECK(replica.up || replica.running.empty());
    std::map<int, int> seats;
    for (const auto& [id, record] : replica.running) {
      seats[record->priority] += record->seats;
      TANDEM_CHECK(record->id == id && record->stage == RequestStage::kRunning);
      TANDEM_CHECK_EQ(record->replica, static_cast<int>(i));
    }
    TANDEM_CHECK(seats == replica.seats);
    for (const RequestRecord* record : replica.suspects) {
      TANDEM_CHECK(record->stage == RequestStage::kSuspect);
      TANDEM_CHECK_EQ(record->replica, static_cast<int>(i));
    }
    if (replica.on_trial != nullptr) {
      TANDEM_CHECK_EQ(replica.running.count(replica.on_trial->id), size_t{1});
      TANDEM_CHECK_EQ(replica.running.size(), size_t{1});
    } else {
      TANDEM_CHECK(!replica.up || replica.suspects.empty());
    }
  }
  TANDEM_CHECK_EQ(running, size_t{0});
  TANDEM_CHECK_EQ(suspects, size_t{0});
}

}  // namespace tandem
