// EngineActor: clients on one side, schedulers on the other, EngineCore's decisions between. Text
// is prepared by threads of their own, so that a long input delays no step; sound, which takes
// seconds, by others than text.
//
// Requests of this process are the core's one client that acknowledges nothing; what it is sent
// goes to their callbacks, here in the actor's thread.

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>

#include "actors/preparer_queue.h"
#include "actors/spawn.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/request/adapter_names.h"
#include "runtime/request/request_json.h"
#include "runtime/version.h"

namespace tandem::actors {
namespace {

constexpr size_t kNumPreparers = 2, kNumSoundPreparers = 2;
constexpr ClientId kThisProcess = 0;

using PreparerHandle = caf::typed_actor<caf::reacts_to<EngineActorHandle, PrepareJob>>;

PreparerHandle::behavior_type preparer(PreparerHandle::pointer self,
                                       std::shared_ptr<Shared> shared) {
  self->set_exception_handler(stop_loudly("preparer"));
  return {[self, shared](const EngineActorHandle& engine, const PrepareJob& job) {
    const proto::SubmitRequest& submit = job.submit->submit();
    PrepareResult result{job.kind, job.preparer, submit.request_id(), nullptr, nullptr};
    try {
      RequestProcessor& processor = *shared->processor;
      result.request = std::make_shared<PreparedRequest>(
          job.sound ? processor.prepare(*job.sound, submit.prompt(), submit.options())
                    : processor.prepare(submit.prompt(), submit.options()));
    } catch (const InputError& e) {
      result.error = copy_of(e);
    } catch (const std::exception& e) {
      result.error = std::make_shared<InputError>(ErrorKind::kInternal, e.what());
    }
    self->send(engine, std::move(result));
  }};
}

InputError engine_closed() {
  return InputError(ErrorKind::kUnavailable, "the server has closed its engine");
}

// Sound that waits to be read.
struct SoundJob {
  ClientMessage submit;
  std::optional<MediaSource> file;  // if the message has none
};

struct EngineState : EngineOutbox {
  // Handles by the core's numbers for them.
  std::unordered_map<ClientId, ClientHandle> clients;
  std::unordered_map<caf::actor_addr, ClientId> ids;
  ClientId next_client = kThisProcess + 1;
  LocalStreams local;
  bool local_closed = false;
  std::unordered_map<std::string, std::function<void()>> on_turn;  // of unread requests
  double heard_at = 0;                                             // the core's latest time
  std::vector<SchedulerHandle> schedulers;
  PreparerHandle preparers[kNumPreparers], sound_preparers[kNumSoundPreparers];
  PreparerQueue<ClientMessage> to_prepare{kNumPreparers};
  PreparerQueue<SoundJob> sounds{kNumSoundPreparers};
  std::shared_ptr<Shared> shared;
  std::unique_ptr<EngineCore> core;
  EngineActorHandle::pointer self = nullptr;

  void to_scheduler(int replica, proto::SchedulerCommand command) override {
    self->send(schedulers[static_cast<size_t>(replica)],
               SchedulerCommandMessage(std::move(command)));
  }
  void to_client(ClientId client, proto::ServerMessage message) override {
    if (client == kThisProcess)
      local.deliver(std::move(message));
    else
      self->send(clients.at(client), ServerMessage(std::move(message)));
  }
  void to_preparer(proto::SubmitRequest request) override {
    proto::ClientMessage message;
    *message.mutable_submit() = std::move(request);
    prepare(ClientMessage(std::move(message)));
  }

  // --- Requests of this process ---
  // Those that nobody has read come in, and leave, before whatever else the core hears.
  void take_unread() {
    for (UnreadQueue::Event& event : shared->unread.take()) {
      const double at = heard_at = std::max(heard_at, event.at);
      if (!event.on_turn) {
        on_turn.erase(event.id);
        core->cancel(event.id, at);
        continue;
      }
      on_turn[event.id] = std::move(event.on_turn);
      try {
        if (local_closed) throw engine_closed();
        core->enter_unread(event.id, at);
      } catch (const InputError&) {
        to_reader(event.id);  // who submits it gets the same answer
      }
    }
  }
  void to_reader(const std::string& id) override {
    const auto node = on_turn.extract(id);
    if (!node.empty()) node.mapped()();
  }
  template <class What>
  void hear(const What& what) {
    take_unread();
    what(*this);
    heard_at = now();
    set_crowded();
  }
  void set_crowded() { shared->unread.set_open(core->crowded() && !local_closed); }
  void submit_local(const LocalSubmit& request) {
    try {
      if (local_closed) throw engine_closed();
      core->reserve(kThisProcess, request.submit->submit(), now());
      local.add(request.stream);
      prepare(request.submit, request.sound);
    } catch (const InputError& e) {
      request.stream->fail(e);
    }
  }
  template <class Error>
  void end_local(const std::string& id, const Error& error) {
    const auto stream = local.take(id);
    if (!stream) return;  // it has ended, or is another client's
    core->cancel(id, now());
    stream->fail(error);
  }
  void cancel_local(const std::string& id) { end_local(id, cancelled_error()); }
  void close_local() {
    local_closed = true;
    set_crowded();
    take_unread();
    while (!on_turn.empty()) {
      const std::string id = on_turn.begin()->first;
      core->cancel(id, now());
      on_turn.erase(id);
    }
    while (local.size() > 0) end_local(local.any(), engine_closed());
  }

  // --- Preparing ---
  void prepare(const ClientMessage& submit, std::optional<MediaSource> sound = {}) {
    if (submit->submit().prompt().encoder().has_sound()) {
      sounds.add({submit, std::move(sound)});
      feed_sound();
    } else {
      to_prepare.add(submit);
      feed_text();
    }
  }
  void feed_text() {
    while (const auto assignment = to_prepare.next())
      self->send(preparers[assignment->preparer], EngineActorHandle(self),
                 PrepareJob{PreparerKind::kText, assignment->preparer, assignment->job, {}});
  }
  // More sound than the core takes at once waits as it came.
  void feed_sound() {
    while (sounds.num_waiting() > 0 && core->takes_sound()) {
      const auto assignment = sounds.next();
      if (!assignment) return;
      self->send(sound_preparers[assignment->preparer], EngineActorHandle(self),
                 PrepareJob{PreparerKind::kSound, assignment->preparer, assignment->job.submit,
                            assignment->job.file});
    }
  }
  static const std::string& id_of(const ClientMessage& job) { return job->submit().request_id(); }
  static const std::string& id_of(const SoundJob& job) { return id_of(job.submit); }
  // What nobody waits for any more does not wait for its turn: whoever submits and cancels faster
  // than texts are prepared must not fill the memory.
  template <class Job>
  void drop_unwanted(PreparerQueue<Job>& queue) {
    const auto gone = queue.remove_unless([&](const Job& job) { return core->awaits(id_of(job)); });
    for (const Job& job : gone)
      core->failed(id_of(job), InputError(ErrorKind::kTimeout, "given up"), now());
  }
  void on_prepared(const PrepareResult& r) {
    if (r.kind == PreparerKind::kSound) {
      sounds.set_free(r.preparer);
    } else {
      to_prepare.set_free(r.preparer);
      feed_text();
    }
    if (r.request)
      core->prepared(r.request_id, std::move(*r.request), now());
    else
      core->failed(r.request_id, *r.error, now());
    if (r.kind == PreparerKind::kSound) feed_sound();  // once the core has counted it
  }

  // --- Clients of other processes ---
  void refuse(const ClientHandle& client, const std::string& id, const InputError& error) {
    proto::ServerMessage message;
    proto::RequestChunk& chunk = *message.add_chunks();
    chunk.set_request_id(id);
    chunk.set_finished(true);
    *chunk.mutable_error() = to_proto(error);
    self->send(client, ServerMessage(std::move(message)));
  }

  ClientId connect(const ClientHandle& client) {
    const auto [it, fresh] = ids.emplace(client.address(), next_client);
    if (!fresh) return it->second;
    clients.emplace(next_client, client);
    core->client_connected(next_client);
    self->monitor(client);
    return next_client++;
  }

  void disconnect(const caf::actor_addr& address) {
    const auto it = ids.find(address);
    if (it == ids.end()) return;
    core->client_gone(it->second, now());
    clients.erase(it->second);
    ids.erase(it);
  }

  void on_client(const ClientHandle& client, const ClientMessage& message) {
    const auto known = ids.find(client.address());
    if (message->has_hello()) {
      if (message->hello().protocol_version() != kProtocolVersion) {
        refuse(client, "",
               invalid_request(
                   "protocol_version",
                   version_mismatch("client", message->hello().protocol_version(), "server")));
      } else {
        connect(client);
      }
      return;
    }
    if (known == ids.end()) {  // no hello, or one of another version, which this tells it
      if (message->has_get_info()) send_info(client, message->get_info().query());
      return;
    }
    const ClientId id = known->second;
    switch (message->message_case()) {
      case proto::ClientMessage::kSubmit: {
        const proto::SubmitRequest& submit = message->submit();
        try {
          core->reserve(id, submit, now());
          prepare(message);
        } catch (const InputError& e) {
          refuse(client, submit.request_id(), e);
        }
        break;
      }
      case proto::ClientMessage::kResume: {
        try {
          core->resume(id, message->resume(), now());
        } catch (const InputError& e) {
          refuse(client, message->resume().request_id(), e);
        }
        break;
      }
      case proto::ClientMessage::kCancel:
        core->cancel(message->cancel().request_id(), now());
        break;
      case proto::ClientMessage::kAcknowledge:
        core->acknowledge(id, message->acknowledge().message(), now());
        break;
      case proto::ClientMessage::kGetInfo: send_info(client, message->get_info().query()); break;
      default: break;  // of a later version
    }
  }

  void send_info(const ClientHandle& client, uint64_t query) {
    proto::ServerMessage message;
    *message.mutable_info() = info();
    message.mutable_info()->set_query(query);
    self->send(client, ServerMessage(std::move(message)));
  }
  proto::ServerInfo info() {
    proto::ServerInfo info;
    info.set_protocol_version(kProtocolVersion);
    info.set_version(kVersion);
    info.set_model(shared->config.engine.loading().model());
    info.set_dtype(name_of(shared->dtype));
    info.set_tensor_parallel_size(shared->config.tensor_parallel_size);
    info.set_num_restarts(shared->board.get().restarts);
    for (proto::Adapter& adapter : shared->processor->adapters().list())
      *info.add_adapters() = std::move(adapter);
    core->fill_info(info, now());
    return info;
  }

  void tick() {
    core->tick(now());
    drop_unwanted(to_prepare);
    drop_unwanted(sounds);
    feed_sound();
    if (core->draining() && core->idle())
      shared->board.update([](ClusterStatus& s) { s.drained = true; });
    shared->info.set(info());
    self->delayed_send(self, kTickInterval, Tick{});
  }
};

EngineActorHandle::behavior_type engine(EngineActorHandle::stateful_pointer<EngineState> self,
                                        std::shared_ptr<Shared> shared) {
  EngineState& s = self->state;
  s.self = self;
  s.shared = shared;
  s.core = std::make_unique<EngineCore>(shared->config.requests, shared->processor->tokenizer(), s);
  s.core->client_connected(kThisProcess, ClientKind::kDirect);
  shared->info.set(s.info());
  self->set_exception_handler(stop_loudly("engine"));
  for (auto& p : s.preparers) p = self->spawn<caf::linked + caf::detached>(preparer, shared);
  for (auto& p : s.sound_preparers) p = self->spawn<caf::linked + caf::detached>(preparer, shared);
  self->set_down_handler([self](caf::down_msg& down) { self->state.disconnect(down.source); });
  self->delayed_send(self, kTickInterval, Tick{});
  return {
      [self](const ClientHandle& client, const ClientMessage& message) {
        self->state.hear([&](EngineState& s) { s.on_client(client, message); });
      },
      [self](const Wiring& wiring) { self->state.schedulers = wiring.schedulers; },
      [self](const PrepareResult& r) {
        self->state.hear([&](EngineState& s) { s.on_prepared(r); });
      },
      [self](const SchedulerEventMessage& event, const WorkerReportMessage& report) {
        self->state.hear([&](EngineState& s) {
          if (report->has_step())
            s.core->replica_step(*event, report->step(), now());
          else
            s.core->replica_event(*event, now());
        });
      },
      [self](const LocalSubmit& request) {
        self->state.hear([&](EngineState& s) { s.submit_local(request); });
      },
      [self](const LocalCancel& c) {
        self->state.hear([&](EngineState& s) { s.cancel_local(c.request_id); });
      },
      [self](const LocalClose&) { self->state.close_local(); },
      [self](const Drain&) { self->state.core->drain(); },
      [self](const GiveUp& g) {
        self->state.hear([&](EngineState& s) { s.core->give_up(g.reason, now()); });
      },
      [self](const Tick&) { self->state.hear([](EngineState& s) { s.tick(); }); },
  };
}

}  // namespace

EngineActorHandle spawn_engine(caf::actor_system& system, std::shared_ptr<Shared> shared) {
  return system.spawn(engine, std::move(shared));
}

}  // namespace tandem::actors
