// The decisions of the EngineActor: the truth about requests, which replica serves which, what
// clients are sent, and what becomes of requests whose workers died. Synchronous; one thread; no
// clock of its own, no I/O: events come in with the time, messages leave through EngineOutbox. The
// contract: docs/cluster.md.
//
// Recovery. The core knows every token that it has taken; a request whose replica went down starts
// again elsewhere (or on the same replica, once it is up) with those tokens as part of its prompt.
// What the old workers may still send is of an older generation and dropped.
//
// Query of death. When workers crashed by their own doing, the requests of the steps in flight are
// suspects. They return to that replica one at a time, alone, before it takes other requests. One
// that has brought forth kProbationTokens more tokens is cleared, and makes way for the next
// suspect; one that crashes it again is refused.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "runtime/engine/request_state.h"
#include "runtime/engine/stream_table.h"
#include "runtime/scheduling/admission.h"

namespace tandem {

struct EngineCoreConfig {
  int num_replicas = 1;
  int max_requests = 16384;    // unfinished ones; more are refused as overload
  double orphan_timeout = 30;  // seconds that a request whose client is gone goes on
  double retention = 60;       // seconds that a finished one waits for its client
  size_t max_retained = 4096;  // finished ones whose client is gone
  AdmissionConfig admission = {};
};

class EngineOutbox {
 public:
  virtual ~EngineOutbox() = default;
  virtual void to_scheduler(int replica, proto::SchedulerCommand command) = 0;
  virtual void to_client(ClientId client, proto::ServerMessage message) = 0;
};

class EngineCore {
 public:
  static constexpr int kProbationTokens = 3;

  // `tokenizer` and `outbox` outlive the core.
  EngineCore(const EngineCoreConfig& config, const Tokenizer& tokenizer, EngineOutbox& outbox);

  // --- clients ---
  // acknowledges false: a client in this process, which takes whatever it is sent. It has no
  // window, and a request is forgotten once its last chunk has gone out.
  void client_connected(ClientId client, bool acknowledges = true);
  // Its requests go on for orphan_timeout, in case it comes back as another connection.
  void client_gone(ClientId client, double now);
  // Takes the id while the request is being prepared elsewhere (tokenised). Throws InputError: id
  // in use (also while the preparation of a cancelled request is still under way), overload
  // (OverloadError), draining.
  void reserve(ClientId client, const proto::SubmitRequest& submit, double now);
  // Ends the reservation: the request starts, or its error is sent. One of them for each reserve(),
  // even if the request has been cancelled meanwhile.
  void prepared(const std::string& request_id, PreparedRequest request, double now);
  void failed(const std::string& request_id, const InputError& error, double now);
  // The client takes over the request's stream. Throws InputError (kNotFound) if there is none.
  void resume(ClientId client, const proto::ResumeRequest& resume, double now);
  void cancel(const std::string& request_id, double now);
  void acknowledge(ClientId client, uint64_t message, double now);

  // --- replicas ---
  void replica_event(const proto::SchedulerEvent& event, double now);
  // A completed step; `event` says whose.
  void replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step, double now);
  // No replica will ever be up again: all requests fail.
  void give_up(const std::string& reason, double now);

  // --- time ---
  // Deadlines, orphans, retention. To be called about ten times a second.
  void tick(double now);
  // No new requests from now on.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Nothing unfinished, and nothing that a connected client has not acknowledged.
  bool idle() const;
  size_t num_requests() const { return entries_.size(); }  // kept in any state
  size_t num_unfinished() const { return num_unfinished_; }
  void fill_info(proto::ServerInfo& info, double now);
  void check_integrity() const;

 private:
  enum class Phase : uint8_t { kPreparing, kHeld, kRunning, kSuspect, kDone };
  struct Entry {
    Phase phase = Phase::kPreparing;
    std::unique_ptr<RequestState> state;  // null while it is prepared, or if that failed
    std::optional<proto::Error> error;
    StreamCursor cursor;
    bool last_sent = false;
    std::optional<ClientId> client;
    double arrival = 0, deadline = 0;  // 0: none
    int priority = 0;
    double client_lost = 0, finished_at = 0;
    int replica = -1;  // kRunning, kSuspect
    int crashes = 0;
    int probation_tokens = 0;  // tokens that clear it
    Admission::Ticket ticket;  // until it is done
  };
  struct Replica {
    bool up = false;
    uint64_t generation = 0;
    std::unordered_map<std::string, Entry*> running;
    std::deque<std::string> suspects;     // not yet tried again
    std::optional<std::string> on_trial;  // the one that runs now, and nothing beside it
    proto::SchedulerStats stats;
    bool takes_requests() const { return up && suspects.empty() && !on_trial; }
  };
  using Entries = std::unordered_map<std::string, Entry>;

  void check_room(const proto::SubmitRequest& submit, double now);
  void dispatch();
  void start(const std::string& id, Entry& entry, int replica);
  void next_trial(int index);
  Replica* replica_of(const proto::SchedulerEvent& event);
  void on_output(int index, const proto::SequenceGroupOutput& output, double scheduled_at,
                 double now);
  void on_beam_result(int index, const proto::BeamResult& result, double now);
  void on_down(int index, const proto::ReplicaDown& down, double now);
  void leave_replica(const std::string& id, Entry& entry);
  void make_way(const std::string& id, Entry& entry);
  void finish(const std::string& id, Entry& entry, double now);
  void fail(const std::string& id, Entry& entry, const InputError& error, double now);
  void abort(const std::string& id, Entry& entry, const InputError& error, double now);
  void erase(Entries::iterator it);
  void detach(const std::string& id, Entry& entry);
  void mark_news(const std::string& id, Entry& entry);
  void flush(ClientId client, double now);
  void flush_all(double now);
  void add_decoded_tokens(proto::RequestChunk& chunk) const;
  void to_replica(int replica, proto::SchedulerCommand command);

  EngineCoreConfig config_;
  Admission admission_;
  int64_t refused_queue_time_ = 0, refused_deadline_ = 0, refused_full_ = 0;
  const Tokenizer& tokenizer_;
  EngineOutbox& outbox_;
  Entries entries_;
  std::vector<Replica> replicas_;
  std::deque<std::string> held_;                    // ready, in order, waiting for a replica
  std::unordered_set<std::string> being_prepared_;  // whose prepared() or failed() is still to come
  std::unordered_map<ClientId, ClientWindow> clients_;
  std::list<std::string> retained_;  // finished without a client, oldest first
  int64_t next_seq_id_ = 0;
  size_t num_unfinished_ = 0;
  bool draining_ = false;
  std::optional<std::string> given_up_;
};

}  // namespace tandem
