#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <list>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "base/mutex.h"
#include "server/http/connections/connection.h"
#include "server/http/sockets/listeners.h"
#include "server/http/sockets/tls_context.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kForHealth = 32;  // connections beyond the bound, for what is open to everybody
constexpr std::chrono::seconds kTellEvery{10};
constexpr std::chrono::milliseconds kGrace{100};  // that a request takes to follow its connection

}  // namespace

struct HttpServer::Impl final : ConnectionOwner {
  Impl(const ServerConfig& c, ConnectionHooks& hooks)
      : config(c),
        tls(tls_context(c)),
        shared{{c,
                hooks,
                {std::make_shared<BodyBudget>(c.max_body_memory),
                 std::make_shared<BodyBudget>(c.max_upload_disk)}},
               *this,
               tls.get(),
               files},
        listeners(io, c) {}

  void take(tcp::socket socket);
  bool make_room(bool spare_new) REQUIRES(mutex);
  void tell() REQUIRES(mutex);
  void is_now(Connection& connection, Activity activity) override;
  void ended(Connection& connection) override;

  using Line = std::list<Connection*>;  // whoever waits longest stands in front
  struct OpenConnection {
    std::weak_ptr<Connection> connection;
    Line* line = nullptr;  // null: it is being served
    Line::iterator place;
    Clock::time_point since;
    Activity activity = Activity::kSilent;
    bool leaving = false;  // it makes room for another
  };
  Line* line_of(Activity activity) REQUIRES(mutex);
  void join_line(OpenConnection& entry, Connection& connection, Activity activity) REQUIRES(mutex);
  void leave_line(OpenConnection& entry) REQUIRES(mutex);

  const ServerConfig& config;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io;
  asio::thread_pool files{1};
  const Connection::Shared shared;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  Listeners listeners;
  std::vector<std::thread> threads;
  Mutex mutex;
  std::unordered_map<Connection*, OpenConnection> connections GUARDED_BY(mutex);
  Line silent GUARDED_BY(mutex), idle GUARDED_BY(mutex), reading GUARDED_BY(mutex);
  size_t num_leaving GUARDED_BY(mutex) = 0;
  Clock::time_point told GUARDED_BY(mutex);
  bool draining GUARDED_BY(mutex) = false;
  std::atomic<bool> stopped{false};
};

void HttpServer::Impl::take(tcp::socket socket) {
  const MutexLock lock(mutex);
  const size_t here = connections.size() - num_leaving;
  bool crowded = false, refused = draining;
  if (!refused && here >= config.max_connections) {
    tell();
    crowded = !make_room(/*spare_new=*/true);
    refused = crowded && here >= config.max_connections + kForHealth && !make_room(false);
  }
  if (refused) {
    // Closed without a word: an answer would have to be waited for.
    error_code ignored;
    socket.close(ignored);
    return;
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), shared, crowded);
  OpenConnection& entry = connections[connection.get()];
  entry.connection = connection;
  join_line(entry, *connection, Activity::kSilent);
  connection->start();
}

void HttpServer::Impl::tell() {
  if (Clock::now() - told < kTellEvery) return;
  told = Clock::now();
  log_warning("{} connections are open, all that --max-connections allows; {} of them wait",
              config.max_connections, silent.size() + idle.size() + reading.size());
}

// Ends a connection that waits for its client, the one that has waited longest. spare_new: its
// first request, or its body, may be on its way; but where many are silent, each of them has had
// the time in which so many others came.
bool HttpServer::Impl::make_room(bool spare_new) {
  const size_t many = std::min(kForHealth, config.max_connections / 2);
  for (Line* line : {&silent, &idle, &reading}) {
    if (line->empty()) continue;
    OpenConnection& entry = connections.at(line->front());
    const bool spared = line == &reading || (line == &silent && silent.size() < many);
    if (spare_new && spared && Clock::now() - entry.since < kGrace) continue;
    leave_line(entry);
    entry.leaving = true;
    ++num_leaving;
    if (const auto connection = entry.connection.lock()) connection->make_room(entry.activity);
    return true;
  }
  return false;
}

HttpServer::Impl::Line* HttpServer::Impl::line_of(Activity activity) {
  switch (activity) {
    case Activity::kSilent: return &silent;
    case Activity::kIdle: return &idle;
    case Activity::kReading: return &reading;
    case Activity::kServing: break;
  }
  return nullptr;
}

void HttpServer::Impl::join_line(OpenConnection& entry, Connection& connection, Activity activity) {
  entry.activity = activity;
  entry.since = Clock::now();
  entry.line = line_of(activity);
  if (entry.line != nullptr) entry.place = entry.line->insert(entry.line->end(), &connection);
}

void HttpServer::Impl::leave_line(OpenConnection& entry) {
  if (entry.line != nullptr) entry.line->erase(entry.place);
  entry.line = nullptr;
}

void HttpServer::Impl::is_now(Connection& connection, Activity activity) {
  const MutexLock lock(mutex);
  OpenConnection& entry = connections.at(&connection);
  if (entry.leaving) {
    if (activity == Activity::kIdle) return;
    // Its request was faster than the order to leave.
    entry.leaving = false;
    --num_leaving;
  }
  leave_line(entry);
  join_line(entry, connection, activity);
}

void HttpServer::Impl::ended(Connection& connection) {
  const MutexLock lock(mutex);
  const auto it = connections.find(&connection);
  if (it->second.leaving) --num_leaving;
  leave_line(it->second);
  connections.erase(it);
}

HttpServer::HttpServer(const ServerConfig& config, ConnectionHooks& hooks)
    : impl_(std::make_unique<Impl>(config, hooks)) {
  impl_->listeners.accept(
      [impl = impl_.get()](tcp::socket socket) { impl->take(std::move(socket)); });
}

void HttpServer::start() {
  const ServerConfig& config = impl_->config;
  try {
    for (int i = 0; i < std::max(1, config.threads); ++i)
      impl_->threads.emplace_back([this] { impl_->io.run(); });
  } catch (...) {  // without a thread that there may be; those that there are must end
    stop();
    throw;
  }
}

HttpServer::~HttpServer() { stop(); }

uint16_t HttpServer::port() const { return impl_->listeners.port(); }
bool HttpServer::is_local() const { return impl_->listeners.local(); }

int HttpServer::num_connections() const {
  const MutexLock lock(impl_->mutex);
  return static_cast<int>(impl_->connections.size());
}

void HttpServer::end_sockets() {
  const MutexLock lock(impl_->mutex);
  for (const auto& [key, entry] : impl_->connections)
    if (const auto connection = entry.connection.lock()) connection->end_socket();
}

void HttpServer::drain() {
  const MutexLock lock(impl_->mutex);
  impl_->draining = true;
  impl_->listeners.close();
  for (const auto& [key, entry] : impl_->connections)
    if (const auto connection = entry.connection.lock()) connection->drain();
}

void HttpServer::stop() {
  if (impl_->stopped.exchange(true)) return;
  drain();
  {
    const MutexLock lock(impl_->mutex);
    for (const auto& [key, entry] : impl_->connections)
      if (const auto connection = entry.connection.lock()) connection->abort();
  }
  // They end within the time that closing takes; a handler that hangs would not stop us either.
  for (int i = 0; i < 200 && num_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  impl_->work.reset();
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->files.join();  // what it writes is the connections'
}

}  // namespace tandem::server
