#include "runtime/engine/engine_journal.h"

#include <stdexcept>
#include <utility>

#include "runtime/request/request_error.h"

namespace tandem {
namespace {

proto::EngineEvent event_at(double now, ClientId client = 0) {
  proto::EngineEvent event;
  event.set_at(now);
  event.set_client(client);
  return event;
}

}  // namespace

void EngineJournal::client_connected(ClientId client, ClientKind kind) {
  proto::EngineEvent event = event_at(0, client);
  event.mutable_connected()->set_direct(kind == ClientKind::kDirect);
  write_(std::move(event));
  inputs_.client_connected(client, kind);
}

void EngineJournal::client_gone(ClientId client, double now) {
  proto::EngineEvent event = event_at(now, client);
  event.mutable_gone();
  write_(std::move(event));
  inputs_.client_gone(client, now);
}

void EngineJournal::enter_unread(const std::string& request_id, double now) {
  proto::EngineEvent event = event_at(now);
  event.mutable_enter_unread()->set_request_id(request_id);
  write_(std::move(event));
  inputs_.enter_unread(request_id, now);
}

void EngineJournal::reserve(ClientId client, const proto::SubmitRequest& submit, double now) {
  proto::EngineEvent event = event_at(now, client);
  *event.mutable_reserve() = submit;
  write_(std::move(event));
  inputs_.reserve(client, submit, now);
}

void EngineJournal::prepared(const std::string& request_id, PreparedRequest request, double now) {
  proto::EngineEvent event = event_at(now);
  proto::RequestPrepared& out = *event.mutable_prepared();
  out.set_request_id(request_id);
  out.set_composite(request.transcription != nullptr || request.document.has_value());
  if (!out.composite()) {
    *out.mutable_inputs() = request.inputs;
    *out.mutable_params() = request.params;
  }
  write_(std::move(event));
  inputs_.prepared(request_id, std::move(request), now);
}

void EngineJournal::failed(const std::string& request_id, const InputError& error, double now) {
  proto::EngineEvent event = event_at(now);
  event.mutable_failed()->set_request_id(request_id);
  *event.mutable_failed()->mutable_error() = to_proto(error);
  write_(std::move(event));
  inputs_.failed(request_id, error, now);
}

void EngineJournal::resume(ClientId client, const proto::ResumeRequest& resume, double now) {
  proto::EngineEvent event = event_at(now, client);
  *event.mutable_resume() = resume;
  write_(std::move(event));
  inputs_.resume(client, resume, now);
}

void EngineJournal::cancel(const std::string& request_id, double now) {
  proto::EngineEvent event = event_at(now);
  event.mutable_cancel()->set_request_id(request_id);
  write_(std::move(event));
  inputs_.cancel(request_id, now);
}

void EngineJournal::acknowledge(ClientId client, uint64_t message, double now) {
  proto::EngineEvent event = event_at(now, client);
  event.mutable_acknowledge()->set_message(message);
  write_(std::move(event));
  inputs_.acknowledge(client, message, now);
}

void EngineJournal::replica_event(const proto::SchedulerEvent& event, double now) {
  proto::EngineEvent out = event_at(now);
  *out.mutable_replica_event() = event;
  write_(std::move(out));
  inputs_.replica_event(event, now);
}

void EngineJournal::replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                                 double now) {
  proto::EngineEvent out = event_at(now);
  *out.mutable_replica_step()->mutable_event() = event;
  *out.mutable_replica_step()->mutable_output() = step;
  write_(std::move(out));
  inputs_.replica_step(event, step, now);
}

void EngineJournal::give_up(const std::string& reason, double now) {
  proto::EngineEvent event = event_at(now);
  event.mutable_give_up()->set_reason(reason);
  write_(std::move(event));
  inputs_.give_up(reason, now);
}

void EngineJournal::tick(double now) {
  proto::EngineEvent event = event_at(now);
  event.mutable_tick();
  write_(std::move(event));
  inputs_.tick(now);
}

void EngineJournal::drain() {
  proto::EngineEvent event;
  event.mutable_drain();
  write_(std::move(event));
  inputs_.drain();
}

// --- Replay --------------------------------------------------------------------------------------

void EngineReplay::apply(const proto::EngineEvent& event) {
  const double now = event.at();
  const ClientId client = event.client();
  using Event = proto::EngineEvent;
  switch (event.event_case()) {
    case Event::kConnected:
      return inputs_.client_connected(
          client, event.connected().direct() ? ClientKind::kDirect : ClientKind::kRemote);
    case Event::kGone: return inputs_.client_gone(client, now);
    case Event::kEnterUnread: return enter_unread(event);
    case Event::kReserve: return reserve(event);
    case Event::kPrepared: return prepared(event);
    case Event::kFailed: return failed(event);
    case Event::kResume: try { inputs_.resume(client, event.resume(), now);
      } catch (const InputError&) {
      }
      return;
    case Event::kCancel: return inputs_.cancel(event.cancel().request_id(), now);
    case Event::kAcknowledge:
      return inputs_.acknowledge(client, event.acknowledge().message(), now);
    case Event::kReplicaEvent: return inputs_.replica_event(event.replica_event(), now);
    case Event::kReplicaStep:
      return inputs_.replica_step(event.replica_step().event(), event.replica_step().output(), now);
    case Event::kGiveUp: return inputs_.give_up(event.give_up().reason(), now);
    case Event::kTick: return inputs_.tick(now);
    case Event::kDrain: return inputs_.drain();
    case Event::EVENT_NOT_SET: break;
  }
  throw std::runtime_error("event: of a kind that this version does not know");
}

void EngineReplay::enter_unread(const proto::EngineEvent& event) {
  try {
    inputs_.enter_unread(event.enter_unread().request_id(), event.at());
  } catch (const InputError&) {
  }
}

void EngineReplay::reserve(const proto::EngineEvent& event) {
  try {
    inputs_.reserve(event.client(), event.reserve(), event.at());
  } catch (const InputError&) {
    return;
  }
  preparing_.emplace(event.reserve().request_id(), event.reserve());
}

void EngineReplay::prepared(const proto::EngineEvent& event) {
  const proto::RequestPrepared& done = event.prepared();
  const auto submission = preparing_.extract(done.request_id());
  if (!done.composite()) {
    inputs_.prepared(done.request_id(), {done.inputs(), done.params()}, event.at());
    return;
  }
  if (submission.empty())
    throw std::runtime_error("event: \"" + done.request_id() + "\" has not been submitted");
  try {
    inputs_.prepared(done.request_id(), prepare_(submission.mapped()), event.at());
  } catch (const InputError& error) {
    inputs_.failed(done.request_id(), error, event.at());
  }
}

void EngineReplay::failed(const proto::EngineEvent& event) {
  preparing_.erase(event.failed().request_id());
  inputs_.failed(event.failed().request_id(), to_input_error(event.failed().error()), event.at());
}

}  // namespace tandem
