#include "runtime/engine/core/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/engine/states/document_state.h"
#include "runtime/engine/states/speech_state.h"

namespace tandem {
namespace {

// Reading a request takes a few milliseconds, in which no replica is to wait for it.
constexpr int kLeastAhead = 8, kPartAhead = 4;

constexpr SpanKind kOutputs{"outputs", "engine", {"groups"}};

ProfileGroup* profile_of_engine() {
  Profile* const profile = process_profile();
  return profile == nullptr ? nullptr : profile->add_group("engine", 2, {"engine"});
}

InputError deadline_passed() {
  return InputError(ErrorKind::kTimeout, "timeout: the request's deadline has passed", "timeout");
}

}  // namespace

EngineCore::EngineCore(const EngineCoreConfig& config, const Tokenizer& tokenizer,
                       EngineOutbox& outbox)
    : config_(config),
      ahead_(static_cast<size_t>(config.num_replicas *
                                 std::max(kLeastAhead, config.most_at_replica / kPartAhead))),
      profile_(profile_of_engine()),
      intake_(config.max_requests, config.max_sound_bytes, config.admission),
      outbox_(outbox),
      replicas_(config.num_replicas, outbox, config.most_at_replica),
      streams_(config.retention, config.max_retained, tokenizer, outbox),
      ends_(records_, intake_, replicas_, streams_),
      parts_(records_, intake_, streams_, ends_, outbox),
      tokenizer_(tokenizer) {}

// What every event ends with: composite requests go on, held requests start where there is room, in
// their order, and clients get what is new.
void EngineCore::settle(double now) {
  parts_.go_on(now);
  if (config_.least_at_replica > 0)
    replicas_.set_most_seats(
        intake_.most_at_once(config_.most_at_replica, config_.least_at_replica));
  while (RequestRecord* record = intake_.next_held(now)) {
    const auto replica = replicas_.least_loaded(*record);
    if (!replica) break;
    replicas_.start(intake_.take_held(*record, now), *replica);
  }
  while (const auto id = intake_.call_unread(ahead_, now)) outbox_.to_reader(*id);
  for (RequestRecord* record : streams_.flush()) ends_.erase(*record);
}

// --- Clients -------------------------------------------------------------------------------------

void EngineCore::client_connected(ClientId client, ClientKind kind) {
  streams_.connect(client, kind);
}

void EngineCore::client_gone(ClientId client, double now) {
  for (const RequestRecord* record : streams_.disconnect(client, now)) records_.note_lost(*record);
}

void EngineCore::enter_unread(const std::string& id, double now) {
  if (records_.find(id) != nullptr || intake_.is_unread(id))
    throw invalid_request("request_id", "\"" + id + "\" is in use");
  proto::SubmitRequest submit;  // as much as is known of it
  submit.set_request_id(id);
  intake_.check(submit);
  intake_.check_room(submit, records_.size() - streams_.num_retained(), false, now);
  intake_.enter_unread(id, records_.take_serial(), now);
  settle(now);
}

void EngineCore::reserve(ClientId client, const proto::SubmitRequest& submit, double now) {
  try {
    admit(client, submit, now);
  } catch (const InputError&) {
    intake_.drop_unread(submit.request_id(), now);
    throw;
  }
}

void EngineCore::admit(ClientId client, const proto::SubmitRequest& submit, double now) {
  const std::string& id = submit.request_id();
  if (records_.find(id) != nullptr) throw invalid_request("request_id", "\"" + id + "\" is in use");
  intake_.check(submit);
  const RequestRecord* first = submit.batch().empty() ? nullptr : records_.find(submit.batch());
  if (!intake_.is_unread(id))
    intake_.check_room(submit, records_.size() - streams_.num_retained(), first != nullptr, now);
  RequestRecord& record = records_.add(submit, now);
  streams_.attach(record, client);
  intake_.reserve(record, now, submit.prompt().encoder().sound().file().size(), first);
}

bool EngineCore::awaits(const std::string& request_id) const {
  const RequestRecord* record = records_.find(request_id);
  return record != nullptr && record->stage == RequestStage::kPreparing;
}

RequestRecord* EngineCore::find_of_client(const std::string& id) {
  RequestRecord* record = records_.find(id);
  return record != nullptr && record->parent == nullptr ? record : nullptr;
}

void EngineCore::prepared(const std::string& request_id, PreparedRequest request, double now) {
  intake_.end_reservation(request_id);
  RequestRecord* record = records_.find(request_id);
  if (record == nullptr || record->stage != RequestStage::kPreparing) return;  // cancelled, late
  if (intake_.given_up()) {
    ends_.fail(*record, InputError(ErrorKind::kUnavailable, *intake_.given_up()), now);
  } else if (record->deadline > 0 && now >= record->deadline) {
    ends_.fail(*record, deadline_passed(), now);
  } else if (request.transcription) {
    parts_.begin(*record,
                 std::make_unique<SpeechState>(request_id, std::move(request.transcription),
                                               tokenizer_, record->arrival),
                 now);
  } else if (request.document) {
    parts_.begin(
        *record,
        std::make_unique<DocumentState>(request_id, std::move(*request.document), record->arrival),
        now);
  } else {
    if (record->prefix_tokens > 0 && request.params.has_timestamps())
      request.params.mutable_timestamps()->set_prefix_tokens(record->prefix_tokens);
    record->state = std::make_unique<RequestState>(request_id, std::move(request), tokenizer_,
                                                   record->arrival, record->priority);
    intake_.size(*record, now);
    intake_.hold(*record);
  }
  settle(now);
}

void EngineCore::failed(const std::string& request_id, const InputError& error, double now) {
  intake_.end_reservation(request_id);
  RequestRecord* record = records_.find(request_id);
  if (record == nullptr || record->stage != RequestStage::kPreparing) return;
  ends_.fail(*record, error, now);
  settle(now);
}

void EngineCore::resume(ClientId client, const proto::ResumeRequest& resume, double now) {
  RequestRecord* record = find_of_client(resume.request_id());
  if (record == nullptr)
    throw InputError(ErrorKind::kNotFound,
                     "request_id: there is no request \"" + resume.request_id() + "\"",
                     "request_id");
  streams_.resume(*record, client, resume);
  settle(now);
}

void EngineCore::cancel(const std::string& request_id, double now) {
  if (intake_.is_unread(request_id)) {
    intake_.drop_unread(request_id, now);
    return settle(now);
  }
  RequestRecord* record = find_of_client(request_id);
  if (record == nullptr || record->stage == RequestStage::kDone) return;
  ends_.cancel(*record, now);
  settle(now);
}

void EngineCore::acknowledge(ClientId client, uint64_t message, double now) {
  for (const std::string& id : streams_.acknowledge(client, message)) {
    RequestRecord* record = records_.find(id);
    // It may have been taken over, and not been sent to its new client yet.
    if (record != nullptr && StreamTable::has_end(*record, client)) ends_.erase(*record);
  }
  settle(now);
}

// --- Time ----------------------------------------------------------------------------------------

void EngineCore::tick(double now) {
  const auto [late, orphans] = records_.overdue(now, config_.orphan_timeout);
  for (RequestRecord* record : late) ends_.fail(*record, deadline_passed(), now);
  for (RequestRecord* record : orphans) ends_.cancel(*record, now);
  while (RequestRecord* record = streams_.expired(now)) ends_.erase(*record);
  settle(now);
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
      ends_.finish(*record, now);
    }
  } else if (current && event.has_down()) {
    replica_down(event, now);
  }
  settle(now);
}

void EngineCore::replica_down(const proto::SchedulerEvent& event, double now) {
  auto [innocent, crashed_again] = replicas_.down(event.replica(), event.down());
  for (RequestRecord* record : crashed_again)
    ends_.fail(*record,
               InputError(ErrorKind::kInternal,
                          "the request crashed the workers twice and is not tried again (" +
                              event.down().cause() + ")"),
               now);
  for (RequestRecord* record : innocent) intake_.hold(*record);
}

void EngineCore::replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                              double now) {
  if (!replicas_.knows(event)) return;
  const ProfiledScope scope(profile_);
  ProfileSpan span(kOutputs);
  span.say({step.outputs_size()});
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
      const auto stuck = record->state->stuck();
      stuck ? ends_.fail(*record, *stuck, now) : ends_.finish(*record, now);
    }
  settle(now);
  if (profile_ != nullptr) profile_->count_step();
}

void EngineCore::take_output(const proto::SchedulerEvent& event,
                             const proto::SequenceGroupOutput& output, double now) {
  RequestRecord* record = replicas_.running(event.replica(), output.request_id(), output.seq_id());
  if (record == nullptr) return;
  const auto ended = record->state->apply(output, event.scheduled_at(), now);
  if (const auto stuck = record->state->stuck()) {
    ends_.fail(*record, *stuck, now);
    return;
  }
  intake_.progress(*record, now);
  if (record->state->finished()) {
    ends_.finish(*record, now);
    return;
  }
  for (const auto& [seq_id, status] : ended) replicas_.finish_sequence(*record, seq_id);
  streams_.note_news(*record);
  if (replicas_.makes_way(*record)) intake_.hold(*record);
}

void EngineCore::give_up(const std::string& reason, double now) {
  intake_.give_up(reason);
  replicas_.give_up();
  for (auto& [id, record] : records_.all())
    if (record.stage == RequestStage::kMoving || record.stage == RequestStage::kHeld)
      ends_.fail(record, InputError(ErrorKind::kUnavailable, reason), now);
  // Those who read them learn it when they come.
  while (const auto id = intake_.call_unread(intake_.num_unfinished() + 1, now))
    outbox_.to_reader(*id);
  settle(now);
}

void EngineCore::fill_info(proto::ServerInfo& info, double now) {
  intake_.fill_info(info, now);
  replicas_.fill_info(info, intake_.num_held());
}

void EngineCore::check_integrity() const {
  std::vector<const RequestRecord*> records;
  for (const auto& [id, record] : records_.all()) {
    TANDEM_CHECK_EQ(record.id, id);
    TANDEM_CHECK(record.stage != RequestStage::kMoving);
    if (record.state) record.state->check_integrity();
    if (record.state && record.state->finished()) TANDEM_CHECK(record.stage == RequestStage::kDone);
    records.push_back(&record);
  }
  intake_.check_integrity(records);
  replicas_.check_integrity(records);
  streams_.check_integrity(records);
  parts_.check_integrity(records);
}

}  // namespace tandem
