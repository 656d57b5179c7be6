// The public class: numbers streams, starts and ends the threads and actors behind it.
#include <algorithm>
#include <array>
#include <atomic>
#include <caf/all.hpp>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "actors/network/credentials.h"
#include "actors/network/endpoint_probe.h"
#include "actors/network/system_config.h"
#include "base/error.h"
#include "base/mutex.h"
#include "client/client_actor.h"
#include "client/dispatcher.h"
#include "client/in_process.h"
#include "client/input_errors.h"
#include "client/stream.h"
#include "client/tandem_client.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/protocol/json/options_reader.h"

namespace tandem::client {
namespace {

constexpr std::chrono::milliseconds kPatience(700), kProbeTime(1000);
constexpr const char* kClientPort = "client port (--client-port, default 7070)";

std::string random_id() {
  std::random_device random;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "req-%08x%08x%08x%08x", random(), random(), random(),
                random());
  return text.data();
}

double to_seconds(std::chrono::milliseconds ms) {
  return std::chrono::duration<double>(ms).count();
}

}  // namespace

// The order of the members is the order of their lives: the actor system goes last but one.
struct Client::Impl {
  std::unique_ptr<actors::SystemConfig> config;  // null in process, as the system
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  std::shared_ptr<Dispatcher> dispatcher = std::make_shared<Dispatcher>();
  caf::actor actor;
  std::atomic<uint64_t> next_key{1};
  Mutex close_mutex;
  bool closed GUARDED_BY(close_mutex) = false;

  ~Impl() { close(); }

  void start(ClientActorOptions options) {
    options.dispatcher = dispatcher;
    actor = system->spawn<ClientActor>(std::move(options));
    dispatcher->on_consumed([to = actor](uint64_t connection, uint64_t number) {
      caf::anon_send(to, CoreCommand{[connection, number](ClientCore& core, double) {
                       core.consumed(connection, number);
                     }});
    });
  }

  template <class F>
  void command(F&& run) {
    caf::anon_send(actor, CoreCommand{std::forward<F>(run)});
  }

  std::shared_ptr<Stream> new_stream(const std::string& id, ChunkCallback on_chunk) {
    auto stream = std::make_shared<Stream>(next_key++, id, std::move(on_chunk));
    stream->set_cancel([to = actor, key = stream->key] {
      caf::anon_send(to, CoreCommand{[key](ClientCore& core, double) { core.cancel(key); }});
    });
    dispatcher->add(stream);
    return stream;
  }

  // Ends a stream that has not reached the core.
  void fail(StreamKey stream, proto::Error error) {
    Delivery delivery;
    StreamNews& news = delivery.streams.emplace_back();
    news.stream = stream;
    news.finished = true;
    news.error = std::move(error);
    dispatcher->deliver(std::move(delivery));
  }

  std::shared_future<proto::ServerInfo> ask_info() {
    std::promise<proto::ServerInfo> promise;
    auto future = promise.get_future().share();
    const uint64_t query = next_key++;
    dispatcher->add_info(query, std::move(promise));
    command([query](ClientCore& core, double now) { core.query_info(query, now); });
    return future;
  }

  // An answer proves that there is an engine behind the port, and that it speaks our version. When
  // it does not come at once, `hopeless` is asked whether it ever will: a reason why not, or
  // nothing.
  void wait_for_server(std::chrono::steady_clock::time_point deadline, bool retry,
                       const std::function<std::string()>& hopeless) {
    const auto patience = std::min(deadline, std::chrono::steady_clock::now() + kPatience);
    for (bool asked = false;;) {
      const auto future = ask_info();
      if (!asked && future.wait_until(patience) != std::future_status::ready) {
        asked = true;
        if (const std::string reason = hopeless(); !reason.empty()) {
          retry = false;
          command([reason](ClientCore& core, double) { core.close("connection_error", reason); });
        }
      }
      const bool in_time = future.wait_until(deadline) == std::future_status::ready;
      if (!in_time)
        command([](ClientCore& core, double) {
          core.close("connection_error", "no server in time: " + core.connection_state());
        });
      try {
        future.get();
        return;
      } catch (const ClientError& e) {
        // The core does not wait as long as we do if its reconnect_timeout is short.
        if (!in_time || !retry || e.type() != "connection_error") throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void close() {
    if (dispatcher->is_own_thread())
      throw std::logic_error("Client::close() must not be called from a callback");
    const MutexLock lock(close_mutex);
    if (closed) return;
    closed = true;
    {
      caf::scoped_actor self(*system);
      self->send(actor, CloseCommand{});
      self->wait_for(actor);
    }
    dispatcher->finish();
  }
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;
void Client::close() { impl_->close(); }

// --- Connecting ----------------------------------------------------------------------------------

namespace {

using Probed = std::pair<std::string, actors::Endpoint>;  // the address, and what is there

// Nothing where no address is known: neither given, nor in an access file that can be read.
std::optional<Probed> probe(const ClientOptions& options) {
  try {
    const std::string address = options.address.empty()
                                    ? actors::read_client_access({}, options.access_file).address
                                    : options.address;
    const auto [host, port] = actors::parse_address(address);
    return Probed{address, actors::probe_endpoint(host, port, kProbeTime)};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string explain(const Probed& probed, const std::string& reason) {
  return actors::explain_connection_failure(probed.second, probed.first, reason, kClientPort);
}

// What no waiting can mend.
void check_address(const std::string& address) {
  if (address.empty()) return;
  try {
    actors::parse_address(address);
  } catch (const InputError& e) {
    throw ClientError("invalid_request_error",
                      std::string(e.what()) + " of the server's " + kClientPort, "address");
  }
}

}  // namespace

Client Client::connect(const ClientOptions& options) {
  check_address(options.address);
  auto impl = std::make_unique<Impl>();
  Impl& state = *impl;
  actors::SystemOptions system_options;
  system_options.threads = 1;
  const actors::Credentials none;  // each connection reads the access file
  state.config = std::make_unique<actors::SystemConfig>(system_options, &none);
  state.own_system = std::make_unique<caf::actor_system>(*state.config);
  state.system = state.own_system.get();

  ClientActorOptions actor;
  actor.core.name = options.name;
  actor.core.reconnect_timeout = to_seconds(options.reconnect_timeout);
  actor.core.max_under_way = options.max_under_way;
  actor.core.retry_refused = options.retry_refused;
  actor.retry = options.retry;
  actor.endpoint = [config = state.config.get(), address = options.address,
                    file = options.access_file] {
    const actors::ClientAccess access = actors::read_client_access(address, file);
    config->replace_credentials(access.credentials);
    const auto [host, port] = actors::parse_address(access.address);
    return ClientActorOptions::Endpoint{host, port};
  };
  state.start(std::move(actor));
  Client client(std::move(impl));
  const auto deadline = std::chrono::steady_clock::now() + options.connect_timeout;
  std::string explained;
  const auto hopeless = [&] {
    const auto endpoint = probe(options);
    if (endpoint && actors::is_hopeless(endpoint->second.kind)) explained = explain(*endpoint, {});
    return explained;
  };
  try {
    client.impl_->wait_for_server(deadline, options.retry, hopeless);
  } catch (const ClientError& e) {
    if (e.type() != "connection_error" || !explained.empty()) throw;
    const auto endpoint = probe(options);
    throw ClientError(e.type(), endpoint ? explain(*endpoint, e.what()) : e.what());
  }
  return client;
}

Client connect_in_process(caf::actor_system& system, const actors::EngineHandle& engine,
                          const std::string& name) {
  auto impl = std::make_unique<Client::Impl>();
  impl->system = &system;
  ClientActorOptions actor;
  actor.core.name = name;
  actor.core.reconnect_timeout = 0;
  actor.engine = engine;
  impl->start(std::move(actor));
  return Client(std::move(impl));
}

// --- Requests ------------------------------------------------------------------------------------

namespace {

// With params_json over `options`. Throws InputError.
proto::GenerationOptions options_of(const Request& request) {
  proto::GenerationOptions options = request.options;
  if (request.params_json.empty()) return options;
  const nlohmann::json params = parse_json_line(request.params_json);
  if (!params.is_object()) throw invalid_request("params", "must be an object");
  override_options(read_options(params), options);
  return options;
}

}  // namespace

RequestHandle Client::submit(const Request& request, ChunkCallback on_chunk) {
  auto stream =
      impl_->new_stream(request.id.empty() ? random_id() : request.id, std::move(on_chunk));
  proto::SubmitRequest message;
  message.set_request_id(stream->id);
  *message.mutable_prompt() = request.prompt.message();
  proto::Error wrong = request.prompt.error();
  if (const auto& sound = message.prompt().encoder();
      sound.sound().file().size() > Prompt::kMostSoundBytes)
    wrong = to_message(InputError(
        ErrorKind::kResource,
        sound.field() + ": has " + std::to_string(sound.sound().file().size()) +
            " bytes, more than the " + std::to_string(Prompt::kMostSoundBytes) + " that are sent",
        sound.field()));
  try {
    *message.mutable_options() = options_of(request);
  } catch (const InputError& e) {
    if (wrong.type().empty()) wrong = to_message(e);
  }
  if (!wrong.type().empty()) {
    impl_->fail(stream->key, std::move(wrong));
    return RequestHandle(std::move(stream));
  }
  message.set_timeout(request.timeout);
  message.set_priority(request.priority);
  message.set_batch(request.batch);
  impl_->command([key = stream->key, message = std::move(message)](ClientCore& core, double now) {
    core.submit(key, message, now);
  });
  return RequestHandle(std::move(stream));
}

std::vector<RequestHandle> Client::submit_batch(const std::vector<Request>& requests) {
  std::vector<RequestHandle> handles;
  handles.reserve(requests.size());
  for (Request request : requests) {
    if (request.batch.empty() && !handles.empty()) request.batch = handles.front().id();
    handles.push_back(submit(request));
  }
  return handles;
}

RequestHandle Client::resume(const std::string& request_id, ChunkCallback on_chunk) {
  auto stream = impl_->new_stream(request_id, std::move(on_chunk));
  impl_->command([key = stream->key, request_id](ClientCore& core, double now) {
    core.resume(key, request_id, now);
  });
  return RequestHandle(std::move(stream));
}

// --- Server --------------------------------------------------------------------------------------

std::shared_future<proto::ServerInfo> Client::server_info_async() { return impl_->ask_info(); }

proto::ServerInfo Client::server_info(std::chrono::milliseconds timeout) {
  const auto future = server_info_async();
  if (future.wait_for(timeout) != std::future_status::ready)
    throw ClientError("timeout_error", "the server does not answer");
  return future.get();
}

}  // namespace tandem::client
