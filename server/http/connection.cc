// See connection.h. Two coroutines never run on one connection; the input's read is the only
// operation beside them.
//
// co_await stands alone or behind `=`, never in a condition or another expression: g++ 12 destroys
// the awaitable twice there.
#include "server/http/connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/error.hpp>

#include "server/http/errors.h"
#include "server/http/exchange.h"
#include "server/http/response_header.h"
#include "server/http/url.h"

namespace tandem::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kHeaderRead = 4096;
constexpr size_t kWatchRead = 512;       // while an answer is under way
constexpr size_t kMaxReadAhead = 16384;  // of later requests, meanwhile
// An event that means nothing: every stream is of server-sent events.
constexpr const char* kSilentEvent = ":\n\n";
constexpr std::chrono::milliseconds kClosingTime{1000};

auto into(error_code& ec) { return asio::redirect_error(asio::use_awaitable, ec); }

}  // namespace

Connection::Connection(Stream::Socket socket, const Shared& shared, bool crowded)
    : shared_(shared),
      config_(shared.gate.config),
      stream_(std::move(socket), shared.tls),
      input_(stream_, std::max(config_.max_header_bytes, kMaxReadAhead) + kBodyRead,
             [this] {
               if (exchange_) watch();
               wake();
             }),
      wake_(stream_.get_executor()),
      deadline_(stream_.get_executor(),
                [this] {
                  error_code ignored;
                  stream_.socket().cancel(ignored);
                  wake();
                }),
      crowded_(crowded) {
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
        self->shared_.owner.ended(*self);
      });
}

void Connection::end_now() {
  gone_ = true;
  error_code ignored;
  stream_.socket().close(ignored);
  wake();
}

void Connection::drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    error_code ignored;
    if (self->idle_) self->stream_.socket().cancel(ignored);
    self->wake();
  });
}

void Connection::end_socket() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->ending_ = true;
    self->wake();
  });
}

void Connection::make_room(Activity activity) {
  asio::post(stream_.get_executor(), [self = shared_from_this(), activity] {
    if (self->activity_ == activity) self->end_now();
  });
}

void Connection::abort() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    self->end_now();
  });
}

void Connection::set_activity(Activity activity) {
  activity_ = activity;
  shared_.owner.is_now(*this, activity);
}

asio::awaitable<void> Connection::wait() {
  error_code ignored;
  wake_.expires_at(Clock::time_point::max());
  co_await wake_.async_wait(into(ignored));
}

void Connection::watch() {
  const auto self = shared_from_this();
  if (input_.size() < kMaxReadAhead) input_.read(self, kWatchRead);
  input_.watch_for_reset(self);
}

asio::awaitable<void> Connection::run() {
  bool going_on = co_await shake_hands();
  while (going_on && !gone() && !draining_) {
    going_on = co_await wait_for_bytes();
    if (going_on) going_on = co_await serve_one();
  }
  set_activity(Activity::kIdle);
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

// The first bytes of the next request, which may be there already; false: there will be none.
asio::awaitable<bool> Connection::wait_for_bytes() {
  if (!first_) set_activity(Activity::kIdle);
  if (input_.skip_empty_lines()) co_return true;
  input_.shrink();
  set_deadline(std::exchange(first_, false) ? config_.header_timeout : config_.idle_timeout);
  idle_ = true;
  bool more = true;
  while (more && !input_.skip_empty_lines()) more = co_await read_more(kHeaderRead);
  idle_ = false;
  clear_deadline();
  co_return more && !gone();
}

asio::awaitable<bool> Connection::serve_one() {
  Incoming incoming;
  const bool there = co_await read_request(incoming);
  if (!there) co_return false;
  exchange_ = std::make_shared<ConnectionExchange>(std::move(incoming.request), *this);
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  exchange->version = incoming.version;
  if (incoming.refusal) {
    exchange->respond(std::move(*incoming.refusal));
  } else {
    set_activity(Activity::kServing);
    shared_.gate.hooks.handle(exchange);
    if (!exchange->socket()) watch();
  }
  const bool complete = co_await send_answer(exchange);
  exchange_.reset();
  const std::chrono::duration<double> time = Clock::now() - exchange->begun;
  exchange->detach(complete);
  shared_.gate.hooks.answered(exchange->request(), exchange->head ? exchange->head->status : 499,
                              exchange->bytes_sent, time.count(), complete);
  co_return complete&& keep_alive_;
}

// More of the input; false: the client, or the time, has ended it.
asio::awaitable<bool> Connection::read_more(size_t bytes) {
  const size_t before = input_.size();
  input_.read(shared_from_this(), bytes);
  while (input_.reading()) co_await wait();
  co_return input_.size() > before;
}

asio::awaitable<error_code> Connection::read_header(RequestReader& reader) {
  for (;;) {
    error_code ec;
    input_.consume(reader.feed(input_.data(), ec));
    if (ec || reader.has_header()) co_return ec;
    if (input_.full(kHeaderRead)) co_return http::make_error_code(http::error::buffer_overflow);
    const bool more = co_await read_more(kHeaderRead);
    if (!more || deadline_.passed()) co_return http::make_error_code(http::error::partial_message);
  }
}

// False: there is none, or nobody to be answered.
asio::awaitable<bool> Connection::read_request(Incoming& incoming) {
  RequestReader reader(config_);
  set_deadline(config_.header_timeout);
  const error_code ec = co_await read_header(reader);
  clear_deadline();
  const Refusal refusal =
      ec ? reader.refusal_of(ec, deadline_.passed() && !draining_) : reader.header_fault();
  if (refusal.status != 0) co_await refuse(refusal);
  if (refusal.status != 0 || ec) co_return false;

  incoming.version = reader.version();
  incoming.request = reader.head();
  incoming.request.remote = remote_;
  incoming.request.secure = stream_.tls() != nullptr;
  incoming.refusal = shared_.gate.refusal(reader, incoming.request, crowded_, incoming.body);
  if (incoming.body) set_activity(Activity::kReading);
  if (!incoming.refusal && !reader.done()) co_await read_body(reader, incoming);
  // What is left of a refused body is in the way of another request.
  keep_alive_ = reader.keep_alive() && !crowded_;
  co_return !gone() && (incoming.refusal || reader.done());
}

// An answer to something that is no request.
asio::awaitable<void> Connection::refuse(Refusal refusal) {
  HttpRequest request;
  request.method = request.path = "-";
  request.remote = remote_;
  request.id = random_id();
  const HttpResponse response = error_response(refusal.status, refusal.message);
  keep_alive_ = false;
  const bool sent = co_await send(answer_text(response, request, 11, keep_alive_));
  shared_.gate.hooks.answered(request, refusal.status, response.body.size(), 0, sent);
}

asio::awaitable<bool> Connection::send_answer(std::shared_ptr<ConnectionExchange> exchange) {
  while (!exchange->head && !gone()) {
    if (input_.probe_due() && exchange->sent_ahead == 0) {
      // Every answer begins so. A client that has gone replies with a reset, which ends the wait.
      exchange->sent_ahead = kFirstBytes.size();
      co_await send(std::string(kFirstBytes));
    } else {
      co_await wait();
    }
  }
  if (gone()) co_return false;
  if (draining_ || (input_.ended() && input_.size() == 0)) keep_alive_ = false;
  bool complete;
  if (exchange->streaming)
    complete = co_await send_stream(*exchange);
  else if (exchange->socket())
    complete = co_await serve_socket(*exchange);
  else
    complete = co_await send_whole(*exchange);
  co_return complete;
}

asio::awaitable<bool> Connection::send_whole(ConnectionExchange& exchange) {
  const HttpResponse& head = *exchange.head;
  std::string text = answer_text(head, exchange.request(), exchange.version, keep_alive_);
  text.erase(0, exchange.sent_ahead);
  if (exchange.request().method != "HEAD") exchange.bytes_sent = head.body.size();
  const bool sent = co_await send(std::move(text));
  co_return sent;
}

asio::awaitable<bool> Connection::send_stream(ConnectionExchange& exchange) {
  const bool chunked = exchange.version >= 11;
  if (!chunked) keep_alive_ = false;
  bool probed = exchange.sent_ahead > 0;
  std::string text =
      header_text(*exchange.head, exchange.request(), exchange.version, keep_alive_, true);
  text.erase(0, exchange.sent_ahead);
  for (;;) {
    exchange.bytes_sent += exchange.unsent.size();
    text += exchange.take_unsent(chunked);
    const bool last = exchange.ended;
    if (last && chunked) text += "0\r\n\r\n";
    if (!text.empty()) {
      const bool sent = co_await send(std::exchange(text, {}));
      if (!sent) co_return false;
    }
    if (last) co_return true;
    while (exchange.unsent.empty() && !exchange.ended && !gone()) {
      if (input_.probe_due() && !std::exchange(probed, true))
        exchange.unsent = kSilentEvent;
      else
        co_await wait();
    }
    if (gone()) co_return false;
  }
}

asio::awaitable<bool> Connection::send(std::string bytes) {
  // The deadline is for progress: a client that reads slowly, but reads, is served.
  size_t sent = 0;
  while (sent < bytes.size() && !gone()) {
    set_deadline(config_.write_timeout);
    error_code ec;
    const auto rest = asio::buffer(bytes.data() + sent, bytes.size() - sent);
    const size_t n = co_await stream_.async_write_some(rest, into(ec));
    sent += n;
    clear_deadline();
    if (ec) gone_ = true;
  }
  co_return !gone();
}

// Lets the client read the last answer: closing with bytes unread would throw it away.
asio::awaitable<void> Connection::close() {
  error_code ec;
  if (!stream_.socket().is_open() || gone()) co_return;
  set_deadline(kClosingTime);
  if (input_.reading()) stream_.socket().cancel(ec);
  while (input_.reading()) co_await wait();
  if (stream_.tls() != nullptr) co_await stream_.tls()->async_shutdown(into(ec));
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  // A body that was refused: many clients read nothing before they have sent it all.
  const size_t most = config_.largest_body() + kBodyRead;
  const Clock::time_point latest = Clock::now() + config_.header_timeout;
  for (size_t total = 0; !gone() && !deadline_.passed() && !input_.ended() && total < most;) {
    char waste[4096];
    ec = {};
    const size_t n = co_await stream_.socket().async_read_some(asio::buffer(waste), into(ec));
    if (ec) break;
    total += n;
    if (Clock::now() < latest) set_deadline(kClosingTime);
  }
  clear_deadline();
}

}  // namespace tandem::server
