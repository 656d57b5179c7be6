// One client's connection: reads requests within bounds of size and time, hands them to the
// application one after the other, and writes the answers. Lives on a strand of its own; nothing
// blocks, and no thread belongs to it.
//
// While an answer is under way the connection reads on: that is how it learns that the client has
// gone. What it reads belongs to the next request.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "server/config.h"
#include "server/connection_hooks.h"
#include "server/http.h"
#include "server/stream.h"

namespace tandem::server {

class ConnectionExchange;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // hooks, config, tls outlive the connection. on_end is called once, on the strand.
  Connection(Stream::Socket socket, boost::asio::ssl::context* tls, const ServerConfig& config,
             ConnectionHooks& hooks, std::function<void()> on_end);
  ~Connection();

  void start();
  // Any thread. Ends at once if no request is under way, else with its answer.
  void drain();
  // Any thread. Ends now; whoever produces the answer hears that the client has gone.
  void abort();

 private:
  friend class ConnectionExchange;
  using Clock = std::chrono::steady_clock;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  struct Incoming;

  Awaitable<void> run();
  Awaitable<bool> shake_hands();
  Awaitable<bool> wait_for_bytes();
  Awaitable<bool> serve_one();
  Awaitable<bool> read_request(Incoming& incoming);
  Awaitable<void> refuse(int status, std::string message);
  Awaitable<bool> send_answer(std::shared_ptr<ConnectionExchange> exchange);
  Awaitable<bool> send_whole(ConnectionExchange& exchange);
  Awaitable<bool> send_stream(ConnectionExchange& exchange);
  Awaitable<bool> send(std::string bytes);
  Awaitable<void> close();
  Awaitable<void> wait();  // for wake()
  void wake() { wake_.cancel(); }
  void watch();
  void set_deadline(std::chrono::milliseconds time);
  void clear_deadline();

  Stream stream_;
  const ServerConfig& config_;
  ConnectionHooks& hooks_;
  std::function<void()> on_end_;
  std::string remote_;
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer wake_, deadline_;
  std::shared_ptr<ConnectionExchange> exchange_;  // under way
  bool reading_ = false;                          // watch()'s read is pending
  bool gone_ = false;                             // the client closed, or we gave up
  bool timed_out_ = false;
  bool idle_ = false;  // between requests
  bool draining_ = false;
  bool keep_alive_ = true;
};

}  // namespace tandem::server
