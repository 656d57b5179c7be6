// A request that became a WebSocket: carries messages between its exchange and the socket.
#pragma once

// clang-format off
#include <utility>  // first: Boost 1.74's awaitable.hpp forgets it
// clang-format on
#include <boost/asio/awaitable.hpp>

#include "server/http/connections/channel.h"
#include "server/http/connections/exchange.h"

namespace tandem::server {

// Answers the request, and goes on until either side ends it; then the channel ends too. False: it
// ended without a goodbye. REQUIRES: the exchange is a socket. Both outlive the session.
boost::asio::awaitable<bool> run_socket_session(Channel& channel, ConnectionExchange& exchange);

}  // namespace tandem::server
