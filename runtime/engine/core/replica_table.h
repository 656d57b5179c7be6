// Which replica runs what, and what becomes of requests whose workers died. Synchronous; the engine
// core's thread; no clock. The contract: docs/cluster.md.
//
// Query of death. When workers crashed by their own doing, the requests of the steps in flight are
// suspects. They return to that replica one at a time, alone, before it takes other requests. One
// that has generated kProbationTokens more tokens is cleared, and makes way for the next suspect;
// one that crashes it again is refused.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/request_record.h"

namespace tandem {

class ReplicaTable {
 public:
  static constexpr int kProbationTokens = 3;

  // `outbox` outlives the table.
  // most_seats: of sequences at a replica, for as urgent requests or more urgent ones; 0: no bound.
  ReplicaTable(int num_replicas, EngineOutbox& outbox, int most_seats = 0);

  // The event's replica is up, in the generation that the event is of.
  bool knows(const proto::SchedulerEvent& event) const;
  // Its suspects come first, one by one.
  void up(const proto::SchedulerEvent& event);
  // The requests that leave with it; suspects stay.
  struct Displaced {
    std::vector<RequestRecord*> innocent;       // in no order
    std::vector<RequestRecord*> crashed_again;  // in the order of the steps
  };
  Displaced down(int replica, const proto::ReplicaDown& down);
  // No replica will be up again. Its requests are kMoving.
  void give_up();
  void set_stats(int replica, const proto::SchedulerStats& stats);

  // The request that an answer of the replica is for. Null: it has gone, or started anew since.
  RequestRecord* running(int replica, const std::string& id, int64_t seq_id) const;
  // The replica that has the fewest, of those that take requests and have room for this one; none:
  // no one has.
  std::optional<int> least_loaded(const RequestRecord& record) const;
  void set_most_seats(int most) { most_seats_ = most; }
  void start(RequestRecord& record, int replica);
  void finish_sequence(const RequestRecord& record, int64_t seq_id);
  // Takes a running request or a suspect from its replica, whose scheduler forgets it.
  void leave(RequestRecord& record);
  // If the request was on trial and has generated enough, it is cleared. True: it has left for the
  // next suspect, and is to go on later or elsewhere.
  bool makes_way(RequestRecord& record);

  // num_held: requests that wait for any of them; they count as waiting there.
  void fill_info(proto::ServerInfo& info, size_t num_held) const;
  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  struct Replica {
    bool up = false;
    uint64_t generation = 0;
    std::unordered_map<std::string, RequestRecord*> running;
    std::deque<RequestRecord*> suspects;  // not yet tried again
    RequestRecord* on_trial = nullptr;    // it runs, and nothing beside it
    proto::SchedulerStats stats;
    std::map<int, int> seats = {};  // of `running`, by priority
    bool takes_requests() const { return up && suspects.empty() && on_trial == nullptr; }
  };

  Replica& at(int replica) { return replicas_[static_cast<size_t>(replica)]; }
  bool has_room(const Replica& replica, const RequestRecord& record) const;
  static void free_seats(Replica& replica, RequestRecord& record);
  void start_next_trial(int replica);
  void tell(int replica, proto::SchedulerCommand command);

  EngineOutbox& outbox_;
  int most_seats_;
  std::vector<Replica> replicas_;
  int64_t next_seq_id_ = 0;
};

}  // namespace tandem
