// See connection.h. Two coroutines never run on one connection; watch()'s read is the only
// operation beside them.
//
// co_await stands alone or behind `=`, never in a condition or another expression: g++ 12 destroys
// the awaitable twice there.
#include "server/connection.h"

#include <spdlog/spdlog.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <sstream>

#include "server/errors.h"
#include "server/exchange.h"
#include "server/request_reader.h"
#include "server/url.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxReadAhead = 64 * 1024;
constexpr std::chrono::milliseconds kClosingTime{1000};

auto into(error_code& ec) { return asio::redirect_error(asio::use_awaitable, ec); }

// The response's header; chunked: a stream, to a client that knows chunks.
std::string header_text(const HttpResponse& head, const HttpRequest& request, int version,
                        bool keep_alive, bool streaming) {
  http::response<http::empty_body> r;
  r.version(version);
  r.result(static_cast<unsigned>(head.status));
  if (head.status == 499) r.reason("Client Closed Request");
  if (!head.content_type.empty()) r.set(http::field::content_type, head.content_type);
  for (const auto& [name, value] : head.headers) r.insert(name, value);
  r.set("x-request-id", request.id);
  if (request.trace) r.set("traceresponse", request.trace.response());
  r.keep_alive(keep_alive);
  if (streaming) {
    r.set(http::field::cache_control, "no-cache");
    if (version >= 11) r.chunked(true);
  } else if (head.status != 204) {
    r.content_length(head.body.size());
  }
  std::ostringstream text;
  text << r.base();
  return text.str();
}

}  // namespace

struct Connection::Incoming {
  HttpRequest request;
  int version = 11;
};

Connection::Connection(Stream::Socket socket, asio::ssl::context* tls, const ServerConfig& config,
                       ConnectionHooks& hooks, std::function<void()> on_end)
    : stream_(std::move(socket), tls),
      config_(config),
      hooks_(hooks),
      on_end_(std::move(on_end)),
      buffer_(std::max(config.max_header_bytes, kMaxReadAhead) + kMaxReadAhead),
      wake_(stream_.get_executor()),
      deadline_(stream_.get_executor()) {
  error_code ec;
  const auto endpoint = stream_.socket().remote_endpoint(ec);
  if (!ec) remote_ = endpoint.address().to_string();
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ec);
}

Connection::~Connection() = default;

void Connection::start() {
  asio::co_spawn(
      stream_.get_executor(), [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](const std::exception_ptr& e) {
        try {
          if (e) std::rethrow_exception(e);
        } catch (const std::exception& x) {
          spdlog::error("connection of {}: {}", self->remote_, x.what());
        }
        if (const auto exchange = std::exchange(self->exchange_, nullptr)) exchange->detach(false);
        self->clear_deadline();
        error_code ignored;
        self->stream_.socket().close(ignored);
        self->on_end_();
      });
}

void Connection::drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    error_code ignored;
    if (self->idle_) self->stream_.socket().cancel(ignored);
    self->wake();
  });
}

void Connection::abort() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = self->gone_ = true;
    error_code ignored;
    self->stream_.socket().close(ignored);
    self->wake();
  });
}

void Connection::set_deadline(std::chrono::milliseconds time) {
  timed_out_ = false;
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](error_code ec) {
    const auto self = weak.lock();
    if (ec || self == nullptr || self->deadline_.expiry() > Clock::now()) return;
    self->timed_out_ = true;
    error_code ignored;
    self->stream_.socket().cancel(ignored);
    self->wake();
  });
}

void Connection::clear_deadline() {
  // A handler that is on its way already sees that it is too early.
  deadline_.expires_at(Clock::time_point::max());
}

asio::awaitable<void> Connection::wait() {
  error_code ignored;
  wake_.expires_at(Clock::time_point::max());
  co_await wake_.async_wait(into(ignored));
}

void Connection::watch() {
  if (reading_ || gone_ || buffer_.size() >= kMaxReadAhead) return;
  reading_ = true;
  const auto room = buffer_.prepare(512);
  stream_.async_read_some(room,
                          asio::bind_executor(stream_.get_executor(),
                                              [self = shared_from_this()](error_code ec, size_t n) {
                                                self->reading_ = false;
                                                if (ec)
                                                  self->gone_ = true;
                                                else
                                                  self->buffer_.commit(n);
                                                if (self->exchange_) self->watch();
                                                self->wake();
                                              }));
}

asio::awaitable<void> Connection::run() {
  bool going_on = co_await shake_hands();
  while (going_on && !gone_ && !draining_) {
    going_on = co_await wait_for_bytes();
    if (going_on) going_on = co_await serve_one();
  }
  co_await close();
}

asio::awaitable<bool> Connection::shake_hands() {
  if (stream_.tls() == nullptr) co_return true;
  set_deadline(config_.header_timeout);
  error_code ec;
  co_await stream_.tls()->async_handshake(asio::ssl::stream_base::server, into(ec));
  clear_deadline();
  co_return !ec;
}

// The first bytes of the next request; false: there will be none.
asio::awaitable<bool> Connection::wait_for_bytes() {
  set_deadline(config_.idle_timeout);
  idle_ = true;
  while (reading_) co_await wait();
  if (buffer_.size() == 0 && !gone_ && !draining_) {
    error_code ec;
    const auto room = buffer_.prepare(4096);
    const size_t n = co_await stream_.async_read_some(room, into(ec));
    if (ec) gone_ = true;
    buffer_.commit(n);
  }
  idle_ = false;
  clear_deadline();
  co_return !gone_ && buffer_.size() > 0;
}

asio::awaitable<bool> Connection::serve_one() {
  Incoming incoming;
  const bool whole = co_await read_request(incoming);
  if (!whole) co_return false;
  const int version = incoming.version;
  exchange_ = std::make_shared<ConnectionExchange>(std::move(incoming.request), *this);
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  exchange->version = version;
  watch();
  hooks_.handle(exchange);
  const bool complete = co_await send_answer(exchange);
  exchange_.reset();
  const std::chrono::duration<double> time = Clock::now() - exchange->begun;
  exchange->detach(complete);
  hooks_.answered(exchange->request(), exchange->head ? exchange->head->status : 499,
                  exchange->bytes_sent, time.count(), complete);
  co_return complete&& keep_alive_;
}

// False: there is none, or it was refused.
asio::awaitable<bool> Connection::read_request(Incoming& incoming) {
  std::optional<RequestParser> parser(std::in_place);
  set_bounds(*parser, config_);
  error_code ec;
  set_deadline(config_.header_timeout);
  co_await http::async_read_header(stream_, buffer_, *parser, into(ec));
  if (!ec) {
    const auto expected = parser->get().find(http::field::expect);
    if (expected != parser->get().end() &&
        boost::beast::iequals(expected->value(), "100-continue")) {
      const bool sent = co_await send("HTTP/1.1 100 Continue\r\n\r\n");
      if (!sent) co_return false;
    }
    set_deadline(config_.body_timeout);
    co_await http::async_read(stream_, buffer_, *parser, into(ec));
  }
  clear_deadline();
  Refusal refusal = refusal_of(ec, timed_out_ && !draining_, config_);
  if (refusal.status != 0) co_await refuse(refusal.status, std::move(refusal.message));
  if (refusal.status != 0 || ec) co_return false;

  keep_alive_ = parser->keep_alive();
  incoming.version = static_cast<int>(parser->get().version());
  incoming.request = take_request(*parser);
  incoming.request.remote = remote_;
  incoming.request.secure = stream_.tls() != nullptr;
  co_return true;
}

// An answer to something that is no request.
asio::awaitable<void> Connection::refuse(int status, std::string message) {
  HttpRequest request;
  request.method = request.path = "-";
  request.remote = remote_;
  request.id = random_id();
  const HttpResponse response = error_response(status, message);
  std::string text =
      header_text(response, request, 11, /*keep_alive=*/false, /*streaming=*/false) + response.body;
  keep_alive_ = false;
  const bool sent = co_await send(std::move(text));
  hooks_.answered(request, status, response.body.size(), 0, sent);
}

asio::awaitable<bool> Connection::send_answer(std::shared_ptr<ConnectionExchange> exchange) {
  while (!exchange->head && !gone_) co_await wait();
  if (gone_) co_return false;
  if (draining_) keep_alive_ = false;
  bool complete;
  if (exchange->streaming)
    complete = co_await send_stream(*exchange);
  else
    complete = co_await send_whole(*exchange);
  co_return complete;
}

asio::awaitable<bool> Connection::send_whole(ConnectionExchange& exchange) {
  const HttpResponse& head = *exchange.head;
  std::string text = header_text(head, exchange.request(), exchange.version, keep_alive_, false);
  if (exchange.request().method != "HEAD") text += head.body;
  exchange.bytes_sent = head.body.size();
  const bool sent = co_await send(std::move(text));
  co_return sent;
}

asio::awaitable<bool> Connection::send_stream(ConnectionExchange& exchange) {
  const bool chunked = exchange.version >= 11;
  if (!chunked) keep_alive_ = false;
  std::string text =
      header_text(*exchange.head, exchange.request(), exchange.version, keep_alive_, true);
  for (;;) {
    if (!exchange.unsent.empty()) {
      exchange.bytes_sent += exchange.unsent.size();
      if (chunked) {
        char size[24];
        std::snprintf(size, sizeof size, "%zx\r\n", exchange.unsent.size());
        text += size + exchange.unsent + "\r\n";
      } else {
        text += exchange.unsent;
      }
      exchange.unsent.clear();
    }
    const bool last = exchange.ended;
    if (last && chunked) text += "0\r\n\r\n";
    if (!text.empty()) {
      const bool sent = co_await send(std::exchange(text, {}));
      if (!sent) co_return false;
    }
    if (last) co_return true;
    while (exchange.unsent.empty() && !exchange.ended && !gone_) co_await wait();
    if (gone_) co_return false;
  }
}

asio::awaitable<bool> Connection::send(std::string bytes) {
  // The deadline is for progress: a client that reads slowly, but reads, is served.
  size_t sent = 0;
  while (sent < bytes.size() && !gone_) {
    set_deadline(config_.write_timeout);
    error_code ec;
    const auto rest = asio::buffer(bytes.data() + sent, bytes.size() - sent);
    const size_t n = co_await stream_.async_write_some(rest, into(ec));
    sent += n;
    clear_deadline();
    if (ec) gone_ = true;
  }
  co_return !gone_;
}

// Lets the client read the last answer: closing with bytes unread would throw it away.
asio::awaitable<void> Connection::close() {
  error_code ec;
  if (!stream_.socket().is_open()) co_return;
  set_deadline(kClosingTime);
  if (stream_.tls() != nullptr && !gone_) {
    if (reading_) stream_.socket().cancel(ec);
    while (reading_ && !timed_out_) co_await wait();
    co_await stream_.tls()->async_shutdown(into(ec));
  }
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  for (size_t total = 0; !gone_ && !timed_out_ && !reading_ && total < (1u << 20);) {
    char waste[4096];
    ec = {};
    const size_t n = co_await stream_.socket().async_read_some(asio::buffer(waste), into(ec));
    if (ec) break;
    total += n;
  }
  clear_deadline();
}

}  // namespace tandem::server
