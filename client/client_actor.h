// Moves messages between ClientCore and the engine: makes connections, watches them, keeps time.
#pragma once

#include <caf/all.hpp>
#include <caf/io/middleman_actor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/network/messages.h"
#include "client/client_core.h"
#include "client/dispatcher.h"

namespace tandem::client {

// A user thread's call of the core.
struct CoreCommand {
  std::function<void(ClientCore&, double now)> run;
};
struct CloseCommand {};
// A server's message, by the connection's actor.
struct Received {
  uint64_t connection = 0;
  actors::ServerMessage message;
};

struct ClientActorOptions {
  ClientCoreConfig core;
  std::shared_ptr<Dispatcher> dispatcher;
  std::optional<actors::EngineHandle> engine;  // in process; else:
  bool retry = true;                           // the first connection, too
  struct Endpoint {
    std::string host;
    uint16_t port = 0;
  };
  // Where to connect; called before each attempt, refreshes the credentials. Throws.
  std::function<Endpoint()> endpoint;
};

class ClientActor : public caf::event_based_actor, private ClientOutbox {
 public:
  ClientActor(caf::actor_config& config, ClientActorOptions options);
  caf::behavior make_behavior() override;
  const char* name() const override { return "tandem::client"; }

 private:
  void send(proto::ClientMessage message) override;
  void deliver(Delivery delivery) override;
  void drop_connection(const std::string& reason) override;

  void connect();
  void on_connected(const caf::strong_actor_ptr& actor, const std::set<std::string>& interface);
  void use_engine(const actors::EngineHandle& engine);
  void on_failed(const std::string& reason);
  void connect_later();
  void end_connection();

  ClientActorOptions options_;
  ClientCore core_;
  actors::EngineHandle engine_;    // of the current connection
  actors::ClientHandle endpoint_;  // where the engine answers: an actor for each connection
  uint64_t num_connections_ = 0;
  bool ever_connected_ = false;
  unsigned spurious_ = 0;  // attempts that were CAF's to blame for
  int failures_ = 0;       // since the last message from a server
};

}  // namespace tandem::client

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::client::CoreCommand)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::client::CloseCommand)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::client::Received)
