#include "server/http/http_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kForHealth = 32;  // connections beyond the bound, for what is open to everybody
constexpr std::chrono::seconds kTellEvery{10};
constexpr std::chrono::milliseconds kGrace{100};  // that a request takes to follow its connection

// OpenSSL does not tell why a file cannot be opened.
void check_readable(const char* flag, const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw invalid_request(flag, file + ": is a directory, expected a PEM file");
  errno = 0;
  if (!std::ifstream(file))
    throw invalid_request(flag, file + ": " + std::generic_category().message(errno));
}

std::unique_ptr<asio::ssl::context> tls_context(const ServerConfig& config) {
  if (config.tls_certificate.empty()) {
    if (!config.tls_key.empty()) throw invalid_request("--ssl-keyfile", "needs --ssl-certfile too");
    return nullptr;
  }
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  error_code ec;
  check_readable("--ssl-certfile", config.tls_certificate);
  context->use_certificate_chain_file(config.tls_certificate, ec);
  if (ec)
    throw invalid_request(
        "--ssl-certfile",
        config.tls_certificate + ": has no certificate in PEM (" + ec.message() + ")");
  const bool apart = !config.tls_key.empty();
  const std::string key = apart ? config.tls_key : config.tls_certificate;
  check_readable("--ssl-keyfile", key);
  context->use_private_key_file(key, asio::ssl::context::pem, ec);
  if (ec)
    throw invalid_request("--ssl-keyfile",
                          key + ": has no private key in PEM that belongs to the certificate in " +
                              config.tls_certificate + " (" + ec.message() + ")" +
                              (apart ? "" : "; give the file that has it with --ssl-keyfile"));
  return context;
}

}  // namespace

struct HttpServer::Impl final : ConnectionOwner {
  Impl(const ServerConfig& c, ConnectionHooks& hooks)
      : config(c),
        tls(tls_context(c)),
        shared{{c, hooks, std::make_shared<BodyBudget>(c.max_body_memory)}, *this, tls.get()} {}

  void listen();
  void accept();
  void take(tcp::socket socket);
  bool make_room(bool spare_new);
  void tell();
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
  Line* line_of(Activity activity);
  void join_line(OpenConnection& entry, Connection& connection, Activity activity);
  void leave_line(OpenConnection& entry);

  const ServerConfig& config;
  std::unique_ptr<asio::ssl::context> tls;
  const Connection::Shared shared;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{asio::make_strand(io)};
  asio::steady_timer pause{acceptor.get_executor()};
  std::vector<std::thread> threads;
  std::mutex mutex;  // of what follows
  std::unordered_map<Connection*, OpenConnection> connections;
  Line silent, idle, reading;
  size_t num_leaving = 0;
  Clock::time_point told;
  bool draining = false;
  std::atomic<bool> stopped{false};
};

void HttpServer::Impl::listen() {
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(config.host, std::to_string(config.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) throw invalid_request("--host", config.host + ": " + ec.message());
  const tcp::endpoint endpoint = *found.begin();
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) return;
  const std::string what = config.host + ":" + std::to_string(config.port) + ": " + ec.message();
  if (ec == asio::error::address_in_use)
    throw InputError(ErrorKind::kUnavailable,
                     "--port: " + what + "; try another --port, or 0 for any free one", "--port");
  throw invalid_request("--port", what);
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(asio::make_strand(io), [this](error_code ec, tcp::socket socket) {
    if (ec == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (ec) {
      // No file descriptors, most likely: others must end first.
      spdlog::warn("cannot take a connection: {}", ec.message());
      pause.expires_after(std::chrono::milliseconds(100));
      pause.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
      return;
    }
    take(std::move(socket));
    accept();
  });
}

void HttpServer::Impl::take(tcp::socket socket) {
  const std::lock_guard lock(mutex);
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
  spdlog::warn("{} connections are open, all that --max-connections allows; {} of them wait",
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
  const std::lock_guard lock(mutex);
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
  const std::lock_guard lock(mutex);
  const auto it = connections.find(&connection);
  if (it->second.leaving) --num_leaving;
  leave_line(it->second);
  connections.erase(it);
}

HttpServer::HttpServer(const ServerConfig& config, ConnectionHooks& hooks)
    : impl_(std::make_unique<Impl>(config, hooks)) {
  impl_->listen();
  impl_->accept();
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

uint16_t HttpServer::port() const {
  error_code ignored;
  return impl_->acceptor.local_endpoint(ignored).port();
}

int HttpServer::num_connections() const {
  const std::lock_guard lock(impl_->mutex);
  return static_cast<int>(impl_->connections.size());
}

void HttpServer::drain() {
  const std::lock_guard lock(impl_->mutex);
  impl_->draining = true;
  asio::post(impl_->acceptor.get_executor(), [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
  });
  for (const auto& [key, entry] : impl_->connections)
    if (const auto connection = entry.connection.lock()) connection->drain();
}

void HttpServer::stop() {
  if (impl_->stopped.exchange(true)) return;
  drain();
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [key, entry] : impl_->connections)
      if (const auto connection = entry.connection.lock()) connection->abort();
  }
  // They end within the time that closing takes; a handler that hangs would not stop us either.
  for (int i = 0; i < 200 && num_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  impl_->work.reset();
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
}

}  // namespace tandem::server
