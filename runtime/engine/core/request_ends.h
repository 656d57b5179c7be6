// How a request ends: it leaves its replica or the queue, makes room for others, and its stream
// gets its end. Records stay until their streams have been delivered.
#pragma once

#include "base/error.h"
#include "runtime/engine/core/intake.h"
#include "runtime/engine/core/replica_table.h"
#include "runtime/engine/core/request_table.h"
#include "runtime/engine/core/stream_table.h"

namespace tandem {

class RequestEnds {
 public:
  // All of them must outlive it.
  RequestEnds(RequestTable& records, Intake& intake, ReplicaTable& replicas, StreamTable& streams)
      : records_(records), intake_(intake), replicas_(replicas), streams_(streams) {}

  // With the result that it has, or record.error.
  void finish(RequestRecord& record, double now);
  void fail(RequestRecord& record, const InputError& error, double now);
  // An unfinished one, of which nobody wants to hear any more. The record is gone.
  void cancel(RequestRecord& record, double now);
  // A finished one, or one that has left. The record is gone.
  void erase(RequestRecord& record);

 private:
  void leave(RequestRecord& record);

  RequestTable& records_;
  Intake& intake_;
  ReplicaTable& replicas_;
  StreamTable& streams_;
};

}  // namespace tandem
