// One client's connection. Reads requests within bounds of size and time, hands them to the
// application one after another, and writes the answers. Lives on its own strand; nothing blocks,
// and it has no thread.
//
// The header decides whether a request is admitted; only then its body is read.
//
// While it answers, the connection keeps reading, because that shows whether the client has gone.
// These bytes belong to the next request.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/config.h"
#include "server/http/connection_input.h"
#include "server/http/http.h"
#include "server/http/request_gate.h"
#include "server/http/request_reader.h"
#include "server/http/sockets/deadline.h"
#include "server/http/sockets/socket_stream.h"

namespace tandem::server {

class Connection;
class ConnectionExchange;

// A connection's current work, for making room.
enum class Activity {
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
  friend class ConnectionExchange;
  using Clock = std::chrono::steady_clock;
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  struct Incoming {
    HttpRequest request;
    std::unique_ptr<RequestBody> body;    // on its way; null: it has none, or nobody wants it
    std::optional<HttpResponse> refusal;  // the answer, without asking the application
    int version = 11;
  };
  static constexpr size_t kBodyRead = 16384;  // at once

  Awaitable<void> run();
  Awaitable<bool> shake_hands();
  Awaitable<bool> wait_for_bytes();
  Awaitable<bool> serve_one();
  Awaitable<bool> read_request(Incoming& incoming);
  Awaitable<boost::system::error_code> read_header(RequestReader& reader);
  Awaitable<void> read_body(RequestReader& reader, Incoming& incoming);
  Awaitable<boost::system::error_code> read_rest(RequestReader& reader, RequestBody* body);
  Awaitable<void> write_file(RequestBody& body);
  Awaitable<bool> read_more(size_t bytes);
  Awaitable<void> refuse(Refusal refusal);
  Awaitable<bool> send_answer(std::shared_ptr<ConnectionExchange> exchange);
  Awaitable<bool> send_whole(ConnectionExchange& exchange);
  Awaitable<bool> send_stream(ConnectionExchange& exchange);
  Awaitable<bool> serve_socket(ConnectionExchange& exchange);
  Awaitable<bool> send(std::string bytes);
  Awaitable<void> close();
  Awaitable<void> wait();  // for wake()
  void wake() { wake_.cancel(); }
  void end_now();
  void watch();
  void set_activity(Activity activity);
  void set_deadline(std::chrono::milliseconds time) { deadline_.set(weak_from_this(), time); }
  void clear_deadline() { deadline_.clear(); }
  bool gone() const { return gone_ || input_.lost(); }

  const Shared& shared_;
  const ServerConfig& config_;
  Stream stream_;
  ConnectionInput input_;
  std::string remote_;
  boost::asio::steady_timer wake_;
  Deadline deadline_;
  std::shared_ptr<ConnectionExchange> exchange_;  // under way
  Activity activity_ = Activity::kSilent;
  const bool crowded_;
  bool gone_ = false;  // nothing is sent any more: we gave up
  bool first_ = true;  // no request has come yet
  bool idle_ = false;  // between requests
  bool draining_ = false, ending_ = false;
  bool keep_alive_ = true;
};

}  // namespace tandem::server
