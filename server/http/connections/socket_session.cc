// See socket_session.h, and channel.cc for the rule of co_await.
#include "server/http/connections/socket_session.h"

#include <boost/beast/core/error.hpp>
#include <memory>
#include <string>

#include "server/http/sockets/web_socket.h"

namespace tandem::server {

boost::asio::awaitable<bool> run_socket_session(Channel& channel, ConnectionExchange& exchange) {
  WebSocketLimits limits;
  limits.message_bytes = channel.config().max_body_bytes;
  limits.unsent_bytes = channel.config().max_unsent_bytes;
  limits.write_timeout = channel.config().write_timeout;
  const auto owner = channel.shared_from_this();
  const auto socket = std::make_shared<WebSocket<Stream>>(
      channel.stream(), owner, limits,
      WebSocket<Stream>::Hooks{exchange.on_message(), [&channel] { channel.wake(); }});
  socket->accept(exchange.request(), exchange.head->headers);
  while (!socket->ended()) {
    if (channel.ending()) exchange.tell_ending();
    for (std::string& text : exchange.take_messages()) socket->send(std::move(text));
    socket->hold(exchange.held());
    if (exchange.ended)
      socket->close(exchange.close_code(), exchange.close_reason());
    else if (channel.draining())
      socket->close(1001, "the server ends");
    if (channel.gone()) socket->abort();
    if (!socket->ended()) co_await channel.wait();
  }
  exchange.bytes_sent = socket->bytes_sent();
  if (!socket->clean()) channel.give_up();
  co_return socket->clean();
}

}  // namespace tandem::server
