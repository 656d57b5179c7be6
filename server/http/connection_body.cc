// See connection.h: the body of a request.
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "server/http/connection.h"
#include "server/http/errors.h"

namespace tandem::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Leaves the body in the request, or what is wrong with it as a refusal, or nothing if the client
// has gone.
asio::awaitable<void> Connection::read_body(RequestReader& reader, Incoming& incoming) {
  if (reader.expects_continue()) {
    const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return;
  }
  RequestBody* const body = incoming.body.get();
  error_code ec;
  try {
    ec = co_await read_rest(reader, body);
    if (!ec && body != nullptr) {
      body->finish();
      co_await write_file(*body);
      body->give_to(incoming.request);
    }
  } catch (BodyRefused& refused) {
    incoming.refusal = refused.take_answer();
  }
  clear_deadline();
  incoming.body.reset();
  reader.read_into(nullptr);
  const Refusal refusal = reader.refusal_of(ec, deadline_.passed() && !draining_);
  if (ec && refusal.status != 0) incoming.refusal = error_response(refusal.status, refusal.message);
}

// Throws BodyRefused.
asio::awaitable<error_code> Connection::read_rest(RequestReader& reader, RequestBody* body) {
  BodyTime time(config_.body_timeout);
  set_deadline(time.left());
  for (;;) {
    error_code ec;
    const size_t used = reader.feed(input_.data(), ec);
    input_.consume(used);
    if (ec) co_return ec;
    for (bool more = body != nullptr; more;) {
      more = body->work();
      if (body->wants_write()) co_await write_file(*body);
    }
    if (reader.done()) co_return ec;
    if (time.add(used)) set_deadline(time.left());
    if (input_.full(kBodyRead)) co_return http::make_error_code(http::error::buffer_overflow);
    const bool more = co_await read_more(kBodyRead);
    if (!more || deadline_.passed()) co_return http::make_error_code(http::error::partial_message);
  }
}

// Where it holds up nobody else.
asio::awaitable<void> Connection::write_file(RequestBody& body) {
  bool writing = true;
  asio::post(shared_.files, [self = shared_from_this(), &body, &writing] {
    body.write();
    asio::post(self->stream_.get_executor(), [self, &writing] {
      writing = false;
      self->wake();
    });
  });
  while (writing) co_await wait();
}

}  // namespace tandem::server
