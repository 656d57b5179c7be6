// Transcriptions in the engine. A request of sound is answered by others of the engine's own, its
// parts: a window each. It is let in, counted, resumed, cancelled and timed as one request; its
// parts go to replicas as any request, come in with it, and have no client. Synchronous; the engine
// core's thread; no clock.
#pragma once

#include <vector>

#include "base/error.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/intake.h"
#include "runtime/engine/core/request_ends.h"
#include "runtime/engine/core/request_table.h"
#include "runtime/engine/core/stream_table.h"

namespace tandem {

class SpeechTable {
 public:
  // All of them must outlive it.
  SpeechTable(RequestTable& records, Intake& intake, StreamTable& streams, RequestEnds& ends,
              EngineOutbox& outbox, const Tokenizer& tokenizer)
      : records_(records),
        intake_(intake),
        streams_(streams),
        ends_(ends),
        outbox_(outbox),
        tokenizer_(tokenizer) {}

  // The request's sound has been read: its first parts come in.
  void begin(RequestRecord& record, std::shared_ptr<Transcription> transcription, double now);
  // Transcriptions whose parts have ended go on, or end.
  void go_on(double now);

  // records: all that there are.
  void check_integrity(const std::vector<const RequestRecord*>& records) const;

 private:
  void take(RequestRecord& record, const RequestRecord& part, double now);
  void add_parts(RequestRecord& record, double now);
  void add_part(RequestRecord& record, Transcription::Request request, double now);

  RequestTable& records_;
  Intake& intake_;
  StreamTable& streams_;
  RequestEnds& ends_;
  EngineOutbox& outbox_;
  const Tokenizer& tokenizer_;
};

}  // namespace tandem
