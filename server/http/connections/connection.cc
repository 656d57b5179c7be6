// See connection.h, and channel.cc for the rule of co_await.
#include "server/http/connections/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <optional>

#include "base/log/log.h"
#include "server/http/connections/answer_sender.h"
#include "server/http/connections/exchange.h"
#include "server/http/connections/request_reception.h"
#include "server/http/connections/socket_session.h"

namespace tandem::server {

namespace asio = boost::asio;

Connection::Connection(Stream::Socket socket, const Shared& shared, bool crowded)
    : shared_(shared),
      channel_(std::make_shared<Channel>(std::move(socket), shared.tls, shared.gate.config)),
      crowded_(crowded) {}

Connection::~Connection() = default;

void Connection::start() {
  asio::co_spawn(
      channel_->executor(), [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](const std::exception_ptr& e) { self->end(e); });
}

void Connection::end(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& x) {
    log_error("connection of {}: {}", channel_->remote(), x.what());
  }
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->detach(false);
  channel_->stop_watching();
  channel_->clear_deadline();
  boost::system::error_code ignored;
  channel_->stream().socket().close(ignored);
  shared_.owner.ended(*this);
}

void Connection::drain() {
  asio::post(channel_->executor(), [self = shared_from_this()] {
    self->channel_->drain();
    if (self->idle_) self->channel_->cancel();
    self->channel_->wake();
  });
}

void Connection::end_socket() {
  asio::post(channel_->executor(), [self = shared_from_this()] {
    self->channel_->ask_to_end();
    self->channel_->wake();
  });
}

void Connection::make_room(Activity activity) {
  asio::post(channel_->executor(), [self = shared_from_this(), activity] {
    if (self->activity_ == activity) self->channel_->end_now();
  });
}

void Connection::abort() {
  asio::post(channel_->executor(), [self = shared_from_this()] {
    self->channel_->drain();
    self->channel_->end_now();
  });
}

void Connection::set_activity(Activity activity) {
  activity_ = activity;
  shared_.owner.is_now(*this, activity);
}

asio::awaitable<void> Connection::run() {
  bool going_on = co_await channel_->shake_hands();
  while (going_on && !channel_->gone() && !channel_->draining()) {
    going_on = co_await wait_for_bytes();
    if (going_on) going_on = co_await serve_one();
  }
  set_activity(Activity::kIdle);
  co_await channel_->close();
}

// The first bytes of the next request, which may be there already; false: there will be none.
asio::awaitable<bool> Connection::wait_for_bytes() {
  ConnectionInput& input = channel_->input();
  if (!first_) set_activity(Activity::kIdle);
  if (input.skip_empty_lines()) co_return true;
  input.shrink();
  const ServerConfig& config = channel_->config();
  channel_->set_deadline(std::exchange(first_, false) ? config.header_timeout
                                                      : config.idle_timeout);
  idle_ = true;
  bool more = true;
  while (more && !input.skip_empty_lines())
    more = co_await channel_->read_more(RequestReception::kHeaderRead);
  idle_ = false;
  channel_->clear_deadline();
  co_return more && !channel_->gone();
}

asio::awaitable<bool> Connection::serve_one() {
  std::optional<ReceivedRequest> received;
  {
    RequestReception reception(*channel_, shared_.gate, shared_.files);
    received = co_await reception.receive(crowded_, [this] { set_activity(Activity::kReading); });
  }
  if (!received) co_return false;
  keep_alive_ = received->keep_alive;
  exchange_ = std::make_shared<ConnectionExchange>(std::move(received->request), *channel_);
  const std::shared_ptr<ConnectionExchange> exchange = exchange_;
  exchange->version = received->version;
  if (received->refusal) {
    exchange->respond(std::move(*received->refusal));
  } else {
    set_activity(Activity::kServing);
    shared_.gate.hooks.handle(exchange);
    if (!exchange->socket()) channel_->watch();
  }
  const bool complete = co_await answer(*exchange);
  channel_->stop_watching();
  exchange_.reset();
  const std::chrono::duration<double> time = Deadline::Clock::now() - exchange->begun;
  exchange->detach(complete);
  shared_.gate.hooks.answered(exchange->request(), exchange->head ? exchange->head->status : 499,
                              exchange->bytes_sent, time.count(), complete);
  co_return complete&& keep_alive_;
}

asio::awaitable<bool> Connection::answer(ConnectionExchange& exchange) {
  AnswerSender sender(*channel_, exchange, keep_alive_);
  bool complete = co_await sender.wait_for_head();
  if (!complete) co_return false;
  if (exchange.socket()) {
    keep_alive_ = false;
    complete = co_await run_socket_session(*channel_, exchange);
  } else {
    complete = co_await sender.send();
    keep_alive_ = sender.keep_alive();
  }
  co_return complete;
}

}  // namespace tandem::server
