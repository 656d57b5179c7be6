// A request in the engine, from its reservation until its client is known to have its end. Plain
// data: EngineCore owns the records, at addresses that stay; the tables each keep their part.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/engine/core/admission.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/waiting_line.h"
#include "runtime/engine/states/composite_state.h"
#include "runtime/engine/states/request_state.h"
#include "runtime/protocol/output_cursor.h"

namespace tandem {

enum class RequestStage : uint8_t {
  kPreparing,  // its text is being tokenised elsewhere, or its sound read
  kParts,      // of sound, of a document: requests of the engine's own are computed for it
  kHeld,       // Intake: waits for a replica
  kRunning,    // ReplicaTable: at one
  kSuspect,    // ReplicaTable: waits to be tried alone at the replica that it may have crashed
  kMoving,     // between two of these, within one event
  kDone,       // it has ended, with an error or without
};

struct RequestRecord {
  RequestRecord(std::string request_id, uint64_t number)
      : id(std::move(request_id)), serial(number) {}

  const std::string id;
  const uint64_t serial;  // in order of arrival
  RequestStage stage = RequestStage::kPreparing;
  std::unique_ptr<RequestState> state;        // null while it is prepared, or if that failed
  std::unique_ptr<CompositeState> composite;  // of what parts answer, instead of `state`
  // What clients may be given; null: nothing yet.
  const proto::RequestOutput* output() const {
    return composite ? &composite->output() : state ? &state->output() : nullptr;
  }
  std::optional<proto::Error> error;
  double arrival = 0, deadline = 0;  // seconds; deadline 0: none
  int priority = 0;

  // PartsTable's.
  RequestRecord* parent = nullptr;  // whose part it is
  int part = 0;                     // its number there
  int prefix_tokens = 0;            // PartRequest's
  std::map<int, RequestRecord*> parts;
  int num_parts = 0;  // so far

  // Intake's.
  Admission::Ticket ticket;              // until it is done
  std::shared_ptr<Patience::Stay> stay;  // of its client, which says no deadline; null: of nobody
  LinePlace place;
  bool turn = false;      // it has been let out of the line's order, and waits for a replica only
  bool begun = false;     // it has been at a replica; a composite one: one of its parts has
  double started_at = 0;  // at the latest one

  // ReplicaTable's.
  int replica = -1;  // while it is running or a suspect
  int seats = 0;     // that it takes there, while it is running
  int crashes = 0;
  int probation_tokens = 0;  // it is cleared when it has so many

  // StreamTable's.
  std::optional<ClientId> client;
  OutputCursor cursor;
  bool end_sent = false, has_news = false;
  double seconds_told = -1;  // of sound, that are done
  double client_lost = 0, finished_at = 0;
};

}  // namespace tandem
