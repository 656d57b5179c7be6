#include "server/http_server.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "kernels/core/error.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

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
  context->use_certificate_chain_file(config.tls_certificate, ec);
  if (ec) throw invalid_request("--ssl-certfile", config.tls_certificate + ": " + ec.message());
  const std::string key = config.tls_key.empty() ? config.tls_certificate : config.tls_key;
  context->use_private_key_file(key, asio::ssl::context::pem, ec);
  if (ec) throw invalid_request("--ssl-keyfile", key + ": " + ec.message());
  return context;
}

}  // namespace

struct HttpServer::Impl {
  Impl(const ServerConfig& c, ConnectionHooks& h) : config(c), hooks(h), tls(tls_context(c)) {}

  void listen();
  void accept();
  void take(tcp::socket socket);

  const ServerConfig& config;
  ConnectionHooks& hooks;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{asio::make_strand(io)};
  asio::steady_timer pause{acceptor.get_executor()};
  std::vector<std::thread> threads;
  std::mutex mutex;  // of connections, draining
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
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
  std::string what = config.host + ":" + std::to_string(config.port) + ": " + ec.message();
  if (ec == asio::error::address_in_use) what += "; try another --port, or 0 for any free one";
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
  if (draining || connections.size() >= config.max_connections) {
    // Closed without a word: an answer would have to be waited for.
    error_code ignored;
    socket.close(ignored);
    return;
  }
  // The key is known only once the object is there.
  auto key = std::make_shared<Connection*>(nullptr);
  const auto connection =
      std::make_shared<Connection>(std::move(socket), tls.get(), config, hooks, [this, key] {
        const std::lock_guard ended(mutex);
        connections.erase(*key);
      });
  *key = connection.get();
  connections.emplace(connection.get(), connection);
  connection->start();
}

HttpServer::HttpServer(const ServerConfig& config, ConnectionHooks& hooks)
    : impl_(std::make_unique<Impl>(config, hooks)) {
  impl_->listen();
  impl_->accept();
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
  for (const auto& [key, weak] : impl_->connections)
    if (const auto connection = weak.lock()) connection->drain();
}

void HttpServer::stop() {
  if (impl_->stopped.exchange(true)) return;
  drain();
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& [key, weak] : impl_->connections)
      if (const auto connection = weak.lock()) connection->abort();
  }
  // They end within the time that closing takes; a handler that hangs would not stop us either.
  for (int i = 0; i < 200 && num_connections() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  impl_->work.reset();
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
}

}  // namespace tandem::server
