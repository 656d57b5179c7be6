// See request_reception.h, and channel.cc for the rule of co_await.
#include "server/http/connections/request_reception.h"

#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>

#include "server/http/errors.h"
#include "server/http/response_header.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

}  // namespace

asio::awaitable<std::optional<ReceivedRequest>> RequestReception::receive(
    bool crowded, std::function<void()> on_body) {
  channel_.set_deadline(channel_.config().header_timeout);
  const error_code ec = co_await read_header();
  channel_.clear_deadline();
  const Refusal refusal =
      ec ? reader_.refusal_of(ec, channel_.late() && !channel_.draining()) : reader_.header_fault();
  if (refusal.status != 0) co_await refuse(refusal);
  if (refusal.status != 0 || ec) co_return std::nullopt;

  ReceivedRequest received;
  received.version = reader_.version();
  received.request = reader_.head();
  received.request.remote = channel_.remote();
  received.request.secure = channel_.secure();
  received.refusal = gate_.refusal(reader_, received.request, crowded, body_);
  if (body_) on_body();
  if (!received.refusal && !reader_.done()) co_await read_body(received);
  if (channel_.gone() || (!received.refusal && !reader_.done())) co_return std::nullopt;
  // What is left of a refused body is in the way of another request.
  received.keep_alive = reader_.keep_alive() && !crowded;
  co_return received;
}

asio::awaitable<error_code> RequestReception::read_header() {
  ConnectionInput& input = channel_.input();
  for (;;) {
    error_code ec;
    input.consume(reader_.feed(input.data(), ec));
    if (ec || reader_.has_header()) co_return ec;
    if (input.full(kHeaderRead)) co_return http::make_error_code(http::error::buffer_overflow);
    const bool more = co_await channel_.read_more(kHeaderRead);
    if (!more || channel_.late()) co_return http::make_error_code(http::error::partial_message);
  }
}

// Leaves the body in the request, or what is wrong with it as a refusal, or nothing if the client
// has gone.
asio::awaitable<void> RequestReception::read_body(ReceivedRequest& received) {
  if (reader_.expects_continue()) {
    const bool sent = co_await channel_.send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return;
  }
  error_code ec;
  try {
    ec = co_await read_rest();
    if (!ec && body_ != nullptr) {
      body_->finish();
      co_await write_file();
      body_->give_to(received.request);
    }
  } catch (BodyRefused& refused) {
    received.refusal = refused.take_answer();
  }
  channel_.clear_deadline();
  body_.reset();
  reader_.read_into(nullptr);
  const Refusal refusal = reader_.refusal_of(ec, channel_.late() && !channel_.draining());
  if (ec && refusal.status != 0) received.refusal = error_response(refusal.status, refusal.message);
}

// Throws BodyRefused.
asio::awaitable<error_code> RequestReception::read_rest() {
  ConnectionInput& input = channel_.input();
  BodyTime time(channel_.config().body_timeout);
  channel_.set_deadline(time.left());
  for (;;) {
    error_code ec;
    const size_t used = reader_.feed(input.data(), ec);
    input.consume(used);
    if (ec) co_return ec;
    for (bool more = body_ != nullptr; more;) {
      more = body_->work();
      if (body_->wants_write()) co_await write_file();
    }
    if (reader_.done()) co_return ec;
    if (time.add(used)) channel_.set_deadline(time.left());
    if (input.full(kBodyRead)) co_return http::make_error_code(http::error::buffer_overflow);
    const bool more = co_await channel_.read_more(kBodyRead);
    if (!more || channel_.late()) co_return http::make_error_code(http::error::partial_message);
  }
}

// Where it holds up nobody else.
asio::awaitable<void> RequestReception::write_file() {
  bool writing = true;
  asio::post(files_, [channel = channel_.shared_from_this(), &body = *body_, &writing] {
    body.write();
    asio::post(channel->executor(), [channel, &writing] {
      writing = false;
      channel->wake();
    });
  });
  while (writing) co_await channel_.wait();
}

// An answer to something that is no request.
asio::awaitable<void> RequestReception::refuse(Refusal refusal) {
  HttpRequest request;
  request.method = request.path = "-";
  request.remote = channel_.remote();
  request.id = random_id();
  const HttpResponse response = error_response(refusal.status, refusal.message);
  const bool sent =
      co_await channel_.send(answer_text(response, request, 11, /*keep_alive=*/false));
  gate_.hooks.answered(request, refusal.status, response.body.size(), 0, sent);
}

}  // namespace tandem::server
