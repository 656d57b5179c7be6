// Sends the answer of an exchange over its channel: whole, or as a stream while it comes. A client
// that may have gone gets the first bytes before there are others, so that its reset ends the wait.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>

#include "server/http/connections/channel.h"
#include "server/http/connections/exchange.h"

namespace tandem::server {

class AnswerSender {
 public:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;

  // Both outlive the sender. keep_alive: the client wants to send another request.
  AnswerSender(Channel& channel, ConnectionExchange& exchange, bool keep_alive)
      : channel_(channel), exchange_(exchange), keep_alive_(keep_alive) {}

  // Until the answer has begun, and is known not to be the connection's last. False: the client has
  // gone.
  Awaitable<bool> wait_for_head();
  // The answer, which is no WebSocket; behind wait_for_head(). False: the client has not got it
  // all.
  Awaitable<bool> send();
  // Whether the connection goes on after it.
  bool keep_alive() const { return keep_alive_; }

 private:
  Awaitable<bool> send_whole();
  Awaitable<bool> send_stream();

  Channel& channel_;
  ConnectionExchange& exchange_;
  bool keep_alive_;
};

}  // namespace tandem::server
