// All that an engine's decisions hear. EngineCore implements it; an EngineJournal writes down what
// passes. Who hears the same inputs at the same times decides the same, and says the same.
// Synchronous; one thread. Times are seconds on the engine's clock, and never go back.
#pragma once

#include <string>

#include "base/error.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/stream_table.h"
#include "runtime/request/request_processor.h"

namespace tandem {

class EngineInputs {
 public:
  virtual ~EngineInputs() = default;

  // --- clients ---
  virtual void client_connected(ClientId client, ClientKind kind) = 0;
  // Its requests go on for orphan_timeout, in case it comes back as another connection.
  virtual void client_gone(ClientId client, double now) = 0;
  // A request that nobody has read yet takes its place in the line, as one of ordinary size.
  // EngineOutbox::to_reader() says when its turn has come. reserve() with its id takes over the
  // place; cancel() gives it up. Throws InputError: id in use, overload (OverloadError), draining.
  virtual void enter_unread(const std::string& request_id, double now) = 0;
  // Takes the id while the request is being prepared elsewhere (tokenised). Throws InputError: id
  // in use (also while the preparation of a cancelled request is still under way), overload
  // (OverloadError), draining.
  virtual void reserve(ClientId client, const proto::SubmitRequest& submit, double now) = 0;
  // Ends the reservation: the request starts, or its error is sent. One of them for each reserve(),
  // even if the request has been cancelled meanwhile.
  virtual void prepared(const std::string& request_id, PreparedRequest request, double now) = 0;
  virtual void failed(const std::string& request_id, const InputError& error, double now) = 0;
  // The client takes over the request's stream. Throws InputError (kNotFound) if there is none.
  // Parts are nobody's to resume or cancel.
  virtual void resume(ClientId client, const proto::ResumeRequest& resume, double now) = 0;
  virtual void cancel(const std::string& request_id, double now) = 0;
  // Of remote clients; what direct ones were given has arrived.
  virtual void acknowledge(ClientId client, uint64_t message, double now) = 0;

  // --- replicas ---
  virtual void replica_event(const proto::SchedulerEvent& event, double now) = 0;
  // A completed step; `event` says whose.
  virtual void replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                            double now) = 0;
  // No replica will ever be up again: all requests fail.
  virtual void give_up(const std::string& reason, double now) = 0;

  // --- time ---
  // Deadlines, orphans, retention. To be called about ten times a second.
  virtual void tick(double now) = 0;
  // No new requests from now on.
  virtual void drain() = 0;
};

}  // namespace tandem
