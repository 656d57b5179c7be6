// EngineActor: clients on one side, schedulers on the other, EngineCore's decisions between. Text
// is prepared by threads of their own, so that a long input delays no step.

#include <unordered_map>

#include "actors/internal.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/request/request_json.h"
#include "runtime/version.h"

namespace tandem::actors {
namespace {

using PreparerHandle = caf::typed_actor<caf::reacts_to<EngineActorHandle, PrepareJob>>;

PreparerHandle::behavior_type preparer(PreparerHandle::pointer self,
                                       std::shared_ptr<Shared> shared) {
  self->set_exception_handler(stop_loudly("preparer"));
  return {[self, shared](const EngineActorHandle& engine, const PrepareJob& job) {
    const proto::SubmitRequest& submit = job.submit->submit();
    PrepareResult result{submit.request_id(), nullptr, nullptr};
    try {
      const auto params = submit.params_json().empty() ? nlohmann::json::object()
                                                       : parse_json_line(submit.params_json());
      if (!params.is_object()) throw invalid_request("params", "must be an object");
      result.request = std::make_shared<PreparedRequest>(
          shared->processor->prepare(parse_json_line(submit.prompt_json()), params));
    } catch (const InputError& e) {
      result.error = std::make_shared<InputError>(e);
    } catch (const std::exception& e) {
      result.error = std::make_shared<InputError>(ErrorKind::kInternal, e.what());
    }
    self->send(engine, std::move(result));
  }};
}

struct EngineState : EngineOutbox {
  // Handles by the core's numbers for them.
  std::unordered_map<ClientId, ClientHandle> clients;
  std::unordered_map<caf::actor_addr, ClientId> ids;
  ClientId next_client = 1;
  std::vector<SchedulerHandle> schedulers;
  PreparerHandle preparers[2];
  size_t next_preparer = 0;
  std::shared_ptr<Shared> shared;
  std::unique_ptr<EngineCore> core;
  EngineActorHandle::pointer self = nullptr;

  void to_scheduler(int replica, proto::SchedulerCommand command) override {
    self->send(schedulers[static_cast<size_t>(replica)],
               SchedulerCommandMessage(std::move(command)));
  }
  void to_client(ClientId client, proto::ServerMessage message) override {
    self->send(clients.at(client), ServerMessage(std::move(message)));
  }

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
               invalid_request("protocol_version",
                               "the server speaks version " + std::to_string(kProtocolVersion)));
      } else {
        connect(client);
      }
      return;
    }
    if (known == ids.end()) return;  // no hello: not a client
    const ClientId id = known->second;
    switch (message->message_case()) {
      case proto::ClientMessage::kSubmit: {
        const proto::SubmitRequest& submit = message->submit();
        try {
          core->reserve(id, submit, now());
          self->send(preparers[next_preparer++ % 2], EngineActorHandle(self), PrepareJob{message});
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
    proto::ServerInfo& info = *message.mutable_info();
    info.set_query(query);
    info.set_protocol_version(kProtocolVersion);
    info.set_version(kVersion);
    info.set_model(shared->config.engine.model.string());
    info.set_dtype(name_of(shared->dtype));
    info.set_tensor_parallel_size(shared->config.tensor_parallel_size);
    info.set_num_restarts(shared->board.get().restarts);
    core->fill_info(info, now());
    self->send(client, ServerMessage(std::move(message)));
  }

  void tick() {
    core->tick(now());
    if (core->draining() && core->idle())
      shared->board.update([](ClusterStatus& s) { s.drained = true; });
    self->delayed_send(self, kTickInterval, Tick{});
  }
};

EngineActorHandle::behavior_type engine(EngineActorHandle::stateful_pointer<EngineState> self,
                                        std::shared_ptr<Shared> shared) {
  EngineState& s = self->state;
  s.self = self;
  s.shared = shared;
  s.core = std::make_unique<EngineCore>(shared->config.requests, shared->processor->tokenizer(), s);
  self->set_exception_handler(stop_loudly("engine"));
  for (auto& p : s.preparers) p = self->spawn<caf::linked + caf::detached>(preparer, shared);
  self->set_down_handler([self](caf::down_msg& down) { self->state.disconnect(down.source); });
  self->delayed_send(self, kTickInterval, Tick{});
  return {
      [self](const ClientHandle& client, const ClientMessage& message) {
        self->state.on_client(client, message);
      },
      [self](const Wiring& wiring) { self->state.schedulers = wiring.schedulers; },
      [self](const PrepareResult& r) {
        if (r.request)
          self->state.core->prepared(r.request_id, std::move(*r.request), now());
        else
          self->state.core->failed(r.request_id, *r.error, now());
      },
      [self](const SchedulerEventMessage& event, const WorkerReportMessage& report) {
        if (report->has_step())
          self->state.core->replica_step(*event, report->step(), now());
        else
          self->state.core->replica_event(*event, now());
      },
      [self](const Drain&) { self->state.core->drain(); },
      [self](const GiveUp& g) { self->state.core->give_up(g.reason, now()); },
      [self](const Tick&) { self->state.tick(); },
  };
}

}  // namespace

EngineActorHandle spawn_engine(caf::actor_system& system, std::shared_ptr<Shared> shared) {
  return system.spawn(engine, std::move(shared));
}

}  // namespace tandem::actors
