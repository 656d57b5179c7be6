#include "server/http/sockets/listeners.h"

#include <algorithm>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log/log.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kTries = 10;  // to find a port that is free at all addresses

// "[::1]" → "::1".
std::string without_brackets(const std::string& host) {
  const bool has = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

std::vector<tcp::endpoint> endpoints_of(asio::io_context& io, const ServerConfig& config) {
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(without_brackets(config.host), std::to_string(config.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) throw invalid_request("--host", config.host + ": " + ec.message());
  std::vector<tcp::endpoint> out;
  for (const auto& entry : found)
    if (std::find(out.begin(), out.end(), entry.endpoint()) == out.end())
      out.push_back(entry.endpoint());
  // Not every system gives localhost its second address (/etc/hosts).
  if (without_brackets(config.host) == "localhost")
    for (const char* address : {"127.0.0.1", "::1"}) {
      const tcp::endpoint endpoint(asio::ip::make_address(address),
                                   static_cast<uint16_t>(config.port));
      if (std::find(out.begin(), out.end(), endpoint) == out.end()) out.push_back(endpoint);
    }
  return out;
}

// Of a host with several addresses: this system, or this machine, does not have that one.
bool is_missing(const error_code& ec) {
  return ec == asio::error::address_family_not_supported ||
         ec == boost::system::errc::address_not_available;
}

}  // namespace

Listeners::Listener::Listener(asio::io_context& io)
    : acceptor(asio::make_strand(io)), pause(acceptor.get_executor()) {}

Listeners::Listeners(asio::io_context& io, const ServerConfig& config) : io_(io) {
  const std::vector<tcp::endpoint> endpoints = endpoints_of(io, config);
  error_code ec;
  for (int i = 0; i < kTries; ++i) {
    listeners_.clear();
    port_ = static_cast<uint16_t>(config.port);
    error_code missing;
    for (tcp::endpoint endpoint : endpoints) {
      endpoint.port(port_);
      ec = open(endpoint, endpoints.size() == 1);
      if (is_missing(ec)) std::swap(missing, ec);
      if (ec) break;
    }
    if (!ec && listeners_.empty()) ec = missing;
    if (ec != asio::error::address_in_use || config.port != 0) break;
  }
  local_ = std::all_of(endpoints.begin(), endpoints.end(),
                       [](const tcp::endpoint& e) { return e.address().is_loopback(); });
  if (!ec) return;
  const std::string what =
      bracketed(config.host) + ":" + std::to_string(config.port) + ": " + ec.message();
  // Another process may give the port back: a restart can help.
  if (ec == asio::error::address_in_use)
    throw InputError(ErrorKind::kUnavailable,
                     "--port: " + what + "; try another --port, or 0 for any free one", "--port");
  throw invalid_request(is_missing(ec) ? "--host" : "--port", what);
}

error_code Listeners::open(const tcp::endpoint& endpoint, bool alone) {
  error_code ec;
  Listener& listener = listeners_.emplace_back(io_);
  tcp::acceptor& acceptor = listener.acceptor;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  // The other addresses have ports of their own.
  if (!ec && !alone && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec)
    listeners_.pop_back();
  else
    port_ = acceptor.local_endpoint().port();
  return ec;
}

void Listeners::accept(std::function<void(Socket)> on_socket) {
  on_socket_ = std::move(on_socket);
  for (Listener& listener : listeners_) accept_one(listener);
}

void Listeners::accept_one(Listener& listener) {
  listener.acceptor.async_accept(
      asio::make_strand(io_), [this, &listener](error_code ec, tcp::socket socket) {
        if (ec == asio::error::operation_aborted || !listener.acceptor.is_open()) return;
        if (ec) {
          // No file descriptors, most likely: others must end first.
          log_warning("cannot take a connection: {}", ec.message());
          listener.pause.expires_after(std::chrono::milliseconds(100));
          listener.pause.async_wait([this, &listener](error_code cancelled) {
            if (!cancelled) accept_one(listener);
          });
          return;
        }
        on_socket_(std::move(socket));
        accept_one(listener);
      });
}

void Listeners::close() {
  for (Listener& listener : listeners_)
    asio::post(listener.acceptor.get_executor(), [&listener] {
      error_code ignored;
      listener.acceptor.close(ignored);
    });
}

}  // namespace tandem::server
