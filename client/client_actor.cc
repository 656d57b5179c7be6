// CAF fails neither what is sent to a dead peer nor what was under way to it: the engine is
// monitored, and the core gives up by time. Each connection has an actor of its own as the address
// for answers, so that nothing of an old connection can be taken for the new one's.
#include "client/client_actor.h"

#include <algorithm>
#include <caf/io/all.hpp>
#include <chrono>
#include <random>
#include <utility>

#include "actors/network/network.h"

namespace tandem::client {
namespace {

using tick_atom = caf::atom_constant<caf::atom("CliTick")>;
using connect_atom = caf::atom_constant<caf::atom("CliConn")>;
using std::chrono::milliseconds;

constexpr milliseconds kTick(100);
constexpr milliseconds kFirstDelay(50), kLongestDelay(2000);

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

actors::ClientHandle::behavior_type answer_address(actors::ClientHandle::pointer,
                                                   const caf::actor& client, uint64_t connection) {
  return {[client, connection](const actors::ServerMessage& message) {
    caf::anon_send(client, Received{connection, message});
  }};
}

milliseconds delay_after(int failures) {
  const auto longest = std::min(kLongestDelay, kFirstDelay * (1 << std::min(failures, 10)));
  static thread_local std::minstd_rand random(std::random_device{}());
  return longest * std::uniform_int_distribution<int>(75, 125)(random) / 100;
}

}  // namespace

ClientActor::ClientActor(caf::actor_config& config, ClientActorOptions options)
    : event_based_actor(config), options_(std::move(options)), core_(options_.core, *this) {}

caf::behavior ClientActor::make_behavior() {
  set_down_handler([this](caf::down_msg& down) {
    if (!engine_ || down.source != engine_.address()) return;
    end_connection();
    core_.disconnected("the connection broke", seconds_now());
    connect_later();
  });
  if (options_.engine) {
    use_engine(*options_.engine);
  } else {
    connect();
  }
  delayed_send(this, kTick, tick_atom::value);
  return {
      [this](const CoreCommand& command) { command.run(core_, seconds_now()); },
      [this](const Received& received) {
        failures_ = 0;
        core_.on_message(received.connection, *received.message, seconds_now());
      },
      [this](tick_atom) {
        core_.tick(seconds_now());
        delayed_send(this, kTick, tick_atom::value);
      },
      [this](connect_atom) { connect(); },
      [this](const CloseCommand&) {
        core_.close("connection_error", "the client was closed");
        end_connection();
        quit();
      },
  };
}

// --- Connection ----------------------------------------------------------------------------------

void ClientActor::connect() {
  ClientActorOptions::Endpoint to;
  try {
    to = options_.endpoint();
  } catch (const std::exception& e) {
    return on_failed(e.what());
  }
  request(actors::network_actor(system()), caf::infinite, caf::connect_atom::value, to.host,
          to.port)
      .then([this](const caf::node_id&, const caf::strong_actor_ptr& actor,
                   const std::set<std::string>& interface) { on_connected(actor, interface); },
            [this, to](caf::error& error) {
              if (actors::is_spurious(error) && ++spurious_ % 8 != 0) return connect();
              on_failed("cannot connect to " + to.host + ":" + std::to_string(to.port) + ": " +
                        system().render(error));
            });
}

void ClientActor::on_connected(const caf::strong_actor_ptr& actor,
                               const std::set<std::string>& interface) {
  if (!actor) return on_failed("no engine is published there");
  const caf::detail::type_list<actors::EngineHandle> expected;
  if (!system().assignable(interface, system().message_types(expected)))
    return on_failed("it is another kind of server");
  use_engine(caf::actor_cast<actors::EngineHandle>(actor));
}

void ClientActor::use_engine(const actors::EngineHandle& engine) {
  engine_ = engine;
  monitor(engine_);  // at once DOWN if it is dead already
  endpoint_ = spawn(answer_address, caf::actor_cast<caf::actor>(this), ++num_connections_);
  ever_connected_ = true;
  core_.connected(num_connections_, seconds_now());
}

void ClientActor::on_failed(const std::string& reason) {
  if (!ever_connected_ && !options_.retry) {
    core_.close("connection_error", reason);
    return;
  }
  core_.disconnected(reason, seconds_now());
  connect_later();
}

void ClientActor::connect_later() {
  if (options_.engine) return;  // in process it is gone for good
  delayed_send(this, delay_after(failures_++), connect_atom::value);
}

void ClientActor::end_connection() {
  if (engine_) demonitor(engine_.address());
  engine_ = nullptr;
  // The engine's monitor on it tells that this client has gone.
  if (endpoint_) send_exit(endpoint_, caf::exit_reason::user_shutdown);
  endpoint_ = nullptr;
}

// --- Outbox --------------------------------------------------------------------------------------

void ClientActor::send(proto::ClientMessage message) {
  if (engine_)
    event_based_actor::send(engine_, endpoint_, actors::ClientMessage(std::move(message)));
}

void ClientActor::deliver(Delivery delivery) { options_.dispatcher->deliver(std::move(delivery)); }

void ClientActor::drop_connection(const std::string& reason) {
  end_connection();
  connect_later();
}

}  // namespace tandem::client
