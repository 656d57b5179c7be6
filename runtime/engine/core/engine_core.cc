#include "runtime/engine/core/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/request/request_error.h"

namespace tandem {
namespace {

InputError deadline_passed() {
  return InputError(ErrorKind::kTimeout, "timeout: the request's deadline has passed", "timeout");
}

}  // namespace

EngineCore::EngineCore(const EngineCoreConfig& config, const Tokenizer& tokenizer,
                       EngineOutbox& outbox)
    : config_(config),
      intake_(config.max_requests, config.admission),
      replicas_(config.num_replicas, outbox),
      streams_(config.retention, config.max_retained, tokenizer, outbox),
      tokenizer_(tokenizer) {}

RequestRecord* EngineCore::find(const std::string& id) {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

// What every event ends with: held requests start where there is room, in their order, and clients
// get what is new.
void EngineCore::settle() {
  while (intake_.any_held()) {
    const auto replica = replicas_.least_loaded();
    if (!replica) break;
    replicas_.start(intake_.take_held(), *replica);
  }
  for (RequestRecord* record : streams_.flush()) erase(*record);
}

// --- Clients -------------------------------------------------------------------------------------

void EngineCore::client_connected(ClientId client, ClientKind kind) {
  streams_.connect(client, kind);
}

void EngineCore::client_gone(ClientId client, double now) { streams_.disconnect(client, now); }

void EngineCore::reserve(ClientId client, const proto::SubmitRequest& submit, double now) {
  const std::string& id = submit.request_id();
  if (find(id) != nullptr) throw invalid_request("request_id", "\"" + id + "\" is in use");
  intake_.check(submit);
  intake_.check_room(submit, records_.size() - streams_.num_retained(),
                     !submit.batch().empty() && find(submit.batch()) != nullptr, now);
  RequestRecord& record = records_.try_emplace(id, id, next_serial_++).first->second;
  record.arrival = now;
  record.deadline = submit.timeout() > 0 ? now + submit.timeout() : 0;
  record.priority = submit.priority();
  streams_.attach(record, client);
  intake_.reserve(record, now);
}

void EngineCore::prepared(const std::string& request_id, PreparedRequest request, double now) {
  intake_.end_reservation(request_id);
  RequestRecord* record = find(request_id);
  if (record == nullptr || record->stage != RequestStage::kPreparing) return;  // cancelled, late
  if (intake_.given_up()) {
    fail(*record, InputError(ErrorKind::kUnavailable, *intake_.given_up()), now);
  } else if (record->deadline > 0 && now >= record->deadline) {
    fail(*record, deadline_passed(), now);
  } else {
    record->state = std::make_unique<RequestState>(request_id, std::move(request), tokenizer_,
                                                   record->arrival, record->priority);
    intake_.size(*record, now);
    intake_.hold(*record);
  }
  settle();
}

void EngineCore::failed(const std::string& request_id, const InputError& error, double now) {
  intake_.end_reservation(request_id);
  RequestRecord* record = find(request_id);
  if (record == nullptr || record->stage != RequestStage::kPreparing) return;
  fail(*record, error, now);
  settle();
}

void EngineCore::resume(ClientId client, const proto::ResumeRequest& resume, double) {
  RequestRecord* record = find(resume.request_id());
  if (record == nullptr)
    throw InputError(ErrorKind::kNotFound,
                     "request_id: there is no request \"" + resume.request_id() + "\"",
                     "request_id");
  streams_.resume(*record, client, resume);
  settle();
}

void EngineCore::cancel(const std::string& request_id, double now) {
  RequestRecord* record = find(request_id);
  if (record == nullptr || record->stage == RequestStage::kDone) return;
  leave(*record);
  intake_.leave(*record, /*completed=*/false, now);
  erase(*record);  // whoever cancels wants nothing more
  settle();
}

void EngineCore::acknowledge(ClientId client, uint64_t message, double) {
  for (const std::string& id : streams_.acknowledge(client, message)) {
    RequestRecord* record = find(id);
    // It may have been taken over, and not been sent to its new client yet.
    if (record != nullptr && StreamTable::has_end(*record, client)) erase(*record);
  }
  settle();
}

void EngineCore::erase(RequestRecord& record) {
  streams_.detach(record);
  records_.erase(record.id);
}

// --- Ends ----------------------------------------------------------------------------------------

// From wherever it is; the scheduler forgets it, if it has it.
void EngineCore::leave(RequestRecord& record) {
  if (record.stage == RequestStage::kHeld) intake_.drop_held(record);
  if (record.stage == RequestStage::kRunning || record.stage == RequestStage::kSuspect)
    replicas_.leave(record);
}

void EngineCore::finish(RequestRecord& record, double now) {
  leave(record);
  intake_.leave(record, !record.error, now);
  streams_.end(record, now);
}

void EngineCore::fail(RequestRecord& record, const InputError& error, double now) {
  record.error = to_proto(error);
  finish(record, now);
}

void EngineCore::tick(double now) {
  std::vector<RequestRecord*> late, orphans;
  for (auto& [id, record] : records_) {
    if (record.stage == RequestStage::kDone) continue;
    if (record.deadline > 0 && now >= record.deadline) {
      late.push_back(&record);
    } else if (!record.client && now >= record.client_lost + config_.orphan_timeout) {
      orphans.push_back(&record);
    }
  }
  for (RequestRecord* record : late) fail(*record, deadline_passed(), now);
  for (RequestRecord* record : orphans) cancel(std::string(record->id), now);
  while (RequestRecord* record = streams_.expired(now)) erase(*record);
  settle();
}

bool EngineCore::idle() const {
  return std::all_of(records_.begin(), records_.end(), [](const auto& r) {
    return r.second.stage == RequestStage::kDone && !r.second.client;
  });
}

// --- Replicas ------------------------------------------------------------------------------------

void EngineCore::replica_event(const proto::SchedulerEvent& event, double now) {
  const bool current = replicas_.knows(event);
  if (event.has_up()) {
    replicas_.up(event);
  } else if (current && event.has_rejected()) {
    const proto::RequestRejected& rejected = event.rejected();
    if (RequestRecord* record =
            replicas_.running(event.replica(), rejected.request_id(), rejected.seq_id())) {
      record->error = rejected.error();
      finish(*record, now);
    }
  } else if (current && event.has_down()) {
    replica_down(event, now);
  }
  settle();
}

void EngineCore::replica_down(const proto::SchedulerEvent& event, double now) {
  auto [innocent, crashed_again] = replicas_.down(event.replica(), event.down());
  for (RequestRecord* record : crashed_again)
    fail(*record,
         InputError(ErrorKind::kInternal,
                    "the request crashed the workers twice and is not tried again (" +
                        event.down().cause() + ")"),
         now);
  intake_.hold_again(std::move(innocent));
}

void EngineCore::replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                              double now) {
  if (!replicas_.knows(event)) return;
  replicas_.set_stats(event.replica(), event.stats());
  for (const proto::RequestPreempted& preempted : event.preempted())
    if (RequestRecord* record =
            replicas_.running(event.replica(), preempted.request_id(), preempted.seq_id()))
      record->state->add_preemption();
  for (const proto::SequenceGroupOutput& output : step.outputs()) take_output(event, output, now);
  for (const proto::BeamResult& result : event.beam_results())
    if (RequestRecord* record =
            replicas_.running(event.replica(), result.request_id(), result.seq_id())) {
      record->state->finish_beams(result, now);
      finish(*record, now);
    }
  settle();
}

void EngineCore::take_output(const proto::SchedulerEvent& event,
                             const proto::SequenceGroupOutput& output, double now) {
  RequestRecord* record = replicas_.running(event.replica(), output.request_id(), output.seq_id());
  if (record == nullptr) return;
  const auto ended = record->state->apply(output, event.scheduled_at(), now);
  intake_.progress(*record, now);
  if (record->state->finished()) {
    finish(*record, now);
    return;
  }
  for (const auto& [seq_id, status] : ended) replicas_.finish_sequence(*record, seq_id);
  streams_.note_news(*record);
  if (replicas_.makes_way(*record)) intake_.hold_by_arrival(*record);
}

void EngineCore::give_up(const std::string& reason, double now) {
  intake_.give_up(reason);
  replicas_.give_up();
  for (auto& [id, record] : records_)
    if (record.stage == RequestStage::kMoving || record.stage == RequestStage::kHeld)
      fail(record, InputError(ErrorKind::kUnavailable, reason), now);
  settle();
}

void EngineCore::fill_info(proto::ServerInfo& info, double now) {
  intake_.fill_info(info, now);
  replicas_.fill_info(info);
}

void EngineCore::check_integrity() const {
  std::vector<const RequestRecord*> records;
  for (const auto& [id, record] : records_) {
    TANDEM_CHECK_EQ(record.id, id);
    TANDEM_CHECK(record.stage != RequestStage::kMoving);
    if (record.state) record.state->check_integrity();
    if (record.state && record.state->finished()) TANDEM_CHECK(record.stage == RequestStage::kDone);
    records.push_back(&record);
  }
  intake_.check_integrity(records);
  replicas_.check_integrity(records);
  streams_.check_integrity(records);
}

}  // namespace tandem
