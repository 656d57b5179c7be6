// How a request ends: it leaves its replica or the queue, makes room for others, and its stream
// gets its end. Records stay until their streams have been delivered. With a transcription its
// parts end.
#pragma once

#include <deque>

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
  // Parts of transcriptions end for nobody but their transcription: the one that ended first, until
  // it is erased. Null: there is none.
  RequestRecord* next_ended_part() { return ended_parts_.empty() ? nullptr : ended_parts_.front(); }

 private:
  void leave(RequestRecord& record, double now);

  RequestTable& records_;
  Intake& intake_;
  ReplicaTable& replicas_;
  StreamTable& streams_;
  std::deque<RequestRecord*> ended_parts_;
};

}  // namespace tandem
