// One client's bytes in both directions, and its time. Knows nothing of HTTP. On its strand; a
// shared pointer owns it, which pending operations keep.
//
// Two coroutines never wait on one channel; the input's read is the only operation beside them.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "server/http/config.h"
#include "server/http/connections/connection_input.h"
#include "server/http/sockets/deadline.h"
#include "server/http/sockets/socket_stream.h"

namespace tandem::server {

class Channel : public std::enable_shared_from_this<Channel> {
 public:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  // tls: null for a plain one. Both references outlive the channel.
  Channel(Stream::Socket socket, boost::asio::ssl::context* tls, const ServerConfig& config);

  Stream& stream() { return stream_; }
  Stream::executor_type executor() { return stream_.get_executor(); }
  ConnectionInput& input() { return input_; }
  const ServerConfig& config() const { return config_; }
  const std::string& remote() const { return remote_; }  // the peer's address
  bool secure() { return stream_.tls() != nullptr; }

  // TLS's; true where there is none. False: it failed.
  Awaitable<bool> shake_hands();
  // More of the input; false: the client, or the time, has ended it.
  Awaitable<bool> read_more(size_t bytes);
  // False: the client has gone, or made no progress within the write timeout.
  Awaitable<bool> send(std::string bytes);
  // Lets the client read the last answer: closing with bytes unread would throw it away.
  Awaitable<void> close();
  // Until wake().
  Awaitable<void> wait();
  void wake() { wake_.cancel(); }

  // While an answer is under way: keeps reading, because that shows whether the client has gone.
  // The bytes belong to the next request.
  void watch();
  void stop_watching() { watching_ = false; }

  void set_deadline(std::chrono::milliseconds time) { deadline_.set(weak_from_this(), time); }
  void clear_deadline() { deadline_.clear(); }
  bool late() const { return deadline_.passed(); }

  // No further request is read from it.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // What goes on over it is to come to its end: a WebSocket's handler is told.
  void ask_to_end() { ending_ = true; }
  bool ending() const { return ending_; }
  // Ends the pending read.
  void cancel();
  // Nothing is sent any more; the client does not read.
  void give_up() { gone_ = true; }
  // The same, and the socket is closed.
  void end_now();
  // The client has gone, or we gave it up.
  bool gone() const { return gone_ || input_.lost(); }

 private:
  const ServerConfig& config_;
  Stream stream_;
  ConnectionInput input_;
  std::string remote_;
  boost::asio::steady_timer wake_;
  Deadline deadline_;
  bool watching_ = false, draining_ = false, ending_ = false, gone_ = false;
};

}  // namespace tandem::server
