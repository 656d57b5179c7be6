// Composite requests in the engine (CompositeState): those that others of the engine's own answer,
// their parts. Such a request is let in, counted, resumed, cancelled and timed as one; its parts go
// to replicas as any request, come in with it, and have no client. Synchronous; the engine core's
// thread; no clock.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/intake.h"
#include "runtime/engine/core/request_ends.h"
#include "runtime/engine/core/request_table.h"
#include "runtime/engine/core/stream_table.h"

namespace tandem {

class PartsTable {
 public:
  // All of them must outlive it.
  PartsTable(RequestTable& records, Intake& intake, StreamTable& streams, RequestEnds& ends,
             EngineOutbox& outbox)
      : records_(records), intake_(intake), streams_(streams), ends_(ends), outbox_(outbox) {}

  // The request has been prepared: its first parts come in.
  void begin(RequestRecord& record, std::unique_ptr<CompositeState> state, double now);
  // Requests whose parts have ended go on, or end.
  void go_on(double now);

  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  void take(RequestRecord& record, const RequestRecord& part, double now);
  void add_parts(RequestRecord& record, double now);
  void add_part(RequestRecord& record, PartRequest request, double now);

  RequestTable& records_;
  Intake& intake_;
  StreamTable& streams_;
  RequestEnds& ends_;
  EngineOutbox& outbox_;
};

}  // namespace tandem
