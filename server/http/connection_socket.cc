// See connection.h: a request that became a WebSocket.
#include <boost/beast/core/error.hpp>
#include <utility>

#include "server/http/connection.h"
#include "server/http/exchange.h"
#include "server/http/sockets/web_socket.h"

namespace tandem::server {

// Until either side ends it; then the connection ends too.
boost::asio::awaitable<bool> Connection::serve_socket(ConnectionExchange& exchange) {
  keep_alive_ = false;
  WebSocketLimits limits;
  limits.message_bytes = config_.max_body_bytes;
  limits.unsent_bytes = config_.max_unsent_bytes;
  limits.write_timeout = config_.write_timeout;
  const auto socket = std::make_shared<WebSocket<Stream>>(
      stream_, shared_from_this(), limits,
      WebSocket<Stream>::Hooks{exchange.on_message(), [this] { wake(); }});
  socket->accept(exchange.request(), exchange.head->headers);
  while (!socket->ended()) {
    if (ending_) exchange.tell_ending();
    for (std::string& text : exchange.take_messages()) socket->send(std::move(text));
    socket->hold(exchange.held());
    if (exchange.ended)
      socket->close(exchange.close_code(), exchange.close_reason());
    else if (draining_)
      socket->close(1001, "the server ends");
    if (gone()) socket->abort();
    if (!socket->ended()) co_await wait();
  }
  exchange.bytes_sent = socket->bytes_sent();
  if (!socket->clean()) gone_ = true;
  co_return socket->clean();
}

}  // namespace tandem::server
