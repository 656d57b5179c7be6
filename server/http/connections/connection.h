// One client's connection. Hands the client's requests to the application, one after another, and
// their answers to the client. Lives on its own strand; nothing blocks, and it has no thread.
//
// Its parts: Channel (bytes and time), RequestReception (one request), AnswerSender (one answer),
// run_socket_session() (a WebSocket).
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <memory>

#include "server/http/connections/channel.h"
#include "server/http/request_gate.h"

namespace tandem::server {

class Connection;
class ConnectionExchange;

// A connection's current work, for making room.
enum class Activity : uint8_t {
  kSilent,   // no request has come yet, or not the whole header of the first
  kIdle,     // the same between requests; or it is being closed
  kReading,  // the body of one that was admitted
  kServing,
};

// Called on the connection's strand.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void is_now(Connection& connection, Activity activity) = 0;
  virtual void ended(Connection& connection) = 0;  // once
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Shared by all connections of a server; outlives them.
  struct Shared {
    RequestGate gate;
    ConnectionOwner& owner;
    boost::asio::ssl::context* tls;   // null: none
    boost::asio::thread_pool& files;  // where writing to a disk may block
  };
  // crowded: there are too many connections; this one may use only open routes, such as /live.
  Connection(Stream::Socket socket, const Shared& shared, bool crowded);
  ~Connection();

  void start();
  // Any thread. Ends at once if no request is under way, else with its answer.
  void drain();
  // Any thread. A WebSocket's handler is told to end it (Exchange::on_ending).
  void end_socket();
  // Any thread. Ends now, if it still does that work.
  void make_room(Activity activity);
  // Any thread. Ends now; the answer's producer is told that the client has gone.
  void abort();

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  Awaitable<void> run();
  Awaitable<bool> wait_for_bytes();
  Awaitable<bool> serve_one();
  Awaitable<bool> answer(ConnectionExchange& exchange);
  void end(const std::exception_ptr& error);
  void set_activity(Activity activity);

  const Shared& shared_;
  const std::shared_ptr<Channel> channel_;
  std::shared_ptr<ConnectionExchange> exchange_;  // under way
  Activity activity_ = Activity::kSilent;
  const bool crowded_;
  bool first_ = true;  // no request has come yet
  bool idle_ = false;  // between requests
  bool keep_alive_ = true;
};

}  // namespace tandem::server
