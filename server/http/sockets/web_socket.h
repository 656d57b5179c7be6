// A WebSocket (RFC 6455) over a connection's bytes: Beast's frames within the server's bounds. On
// the connection's strand. Texts only; no compression.
//
// The stream is a parameter for the fuzzer, which has no sockets.
#pragma once

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/websocket/error.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/strings/utf8.h"
#include "server/http/http.h"
#include "server/http/sockets/socket_stream.h"

namespace tandem::server {

// Beast asks for these of a stream that it does not know. The connection closes the socket.
inline void beast_close_socket(Stream& stream) {
  boost::system::error_code ignored;
  stream.socket().close(ignored);
}
inline void teardown(boost::beast::role_type, Stream&, boost::system::error_code& ec) { ec = {}; }
template <class Handler>
void async_teardown(boost::beast::role_type, Stream& stream, Handler&& handler) {
  boost::asio::post(stream.get_executor(),
                    boost::beast::bind_front_handler(std::forward<Handler>(handler),
                                                     boost::system::error_code{}));
}

struct WebSocketLimits {
  size_t message_bytes = size_t{1} << 20;          // of a client's message
  size_t unsent_bytes = size_t{1} << 22;           // that the client has not read
  std::chrono::milliseconds write_timeout{60000};  // without any progress
  // A client that says nothing for so long is asked whether it is there, and given up after twice
  // the time.
  std::chrono::milliseconds ping_after{20000};
};

template <class Next>
class WebSocket : public std::enable_shared_from_this<WebSocket<Next>> {
 public:
  struct Hooks {
    std::function<void(std::string)> on_message;
    std::function<void()> on_end;  // once; the stream is not used any more
  };
  // owner: keeps the stream alive.
  WebSocket(Next& next, std::shared_ptr<void> owner, const WebSocketLimits& limits, Hooks hooks)
      : owner_(std::move(owner)),
        next_(next),
        limits_(limits),
        hooks_(std::move(hooks)),
        timer_(next.get_executor()) {
    stream_.emplace(next);
    stream_->read_message_max(limits_.message_bytes);
    stream_->auto_fragment(false);
    stream_->control_callback([this](auto, auto) { heard_at_ = Clock::now(); });
  }

  // Answers the request; its headers and `more` are those of the answer. Once.
  void accept(const HttpRequest& request, const Headers& more);
  // A message. False: the client reads too little; the socket has ended.
  bool send(std::string text);
  // While true, no more messages are read.
  void hold(bool held);
  // Says goodbye when all messages have gone.
  void close(uint16_t code, std::string reason);
  // Ends now. Operations of Beast's that wait for each other (a read that has failed and a goodbye)
  // end with its stream, once those of the socket have ended.
  void abort() {
    if (std::exchange(aborted_, true)) return;
    stopping_ = true;
    boost::beast::close_socket(boost::beast::get_lowest_layer(next_));
    boost::asio::post(next_.get_executor(), [self = this->shared_from_this()] {
      self->stream_.reset();
      self->end_if_idle();
    });
  }
  bool ended() const { return ended_; }
  // The client has said goodbye, or we have, and it has answered.
  bool clean() const { return clean_; }
  size_t bytes_sent() const { return bytes_sent_; }

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = boost::system::error_code;

  static constexpr std::chrono::seconds kGoodbyeTime{5};

  // One operation that is under way.
  class Counted {
   public:
    explicit Counted(std::shared_ptr<WebSocket> self) : self_(std::move(self)) {
      ++self_->operations_;
    }
    Counted(Counted&& other) noexcept = default;
    ~Counted() { end(); }
    std::shared_ptr<WebSocket> end() {
      if (self_ != nullptr) --self_->operations_;
      return std::exchange(self_, nullptr);
    }

   private:
    std::shared_ptr<WebSocket> self_;
  };
  // A handler that keeps everything alive, and is counted until it has been called, or is gone.
  template <class F>
  auto on_done(F f) {
    return [counted = Counted(this->shared_from_this()), f = std::move(f)](ErrorCode ec,
                                                                           auto... more) mutable {
      f(ec);
      if (const auto self = counted.end()) self->end_if_idle();
    };
  }
  void read();
  void take();
  void write();
  void say_goodbye();
  void tick();
  void look_at_clock(Clock::time_point now);
  void stop(const ErrorCode& ec);
  void end_if_idle() {
    if (!stopping_ || operations_ > 0 || std::exchange(ended_, true)) return;
    timer_.cancel();
    if (stream_) stream_->control_callback({});
    const Hooks hooks = std::exchange(hooks_, {});
    if (hooks.on_end) hooks.on_end();
  }

  const std::shared_ptr<void> owner_;
  Next& next_;
  const WebSocketLimits limits_;
  Hooks hooks_;
  std::optional<boost::beast::websocket::stream<Next&, false>> stream_;
  boost::asio::steady_timer timer_;
  boost::beast::http::request<boost::beast::http::empty_body> request_;
  boost::beast::flat_buffer incoming_;
  std::deque<std::string> unsent_;
  size_t unsent_bytes_ = 0, bytes_sent_ = 0;
  boost::beast::websocket::close_reason goodbye_;
  Clock::time_point heard_at_ = Clock::now(), write_began_, goodbye_at_;
  int operations_ = 0;
  bool open_ = false, reading_ = false, writing_ = false, pinging_ = false;
  bool held_ = false, closing_ = false, stopping_ = false, ended_ = false, clean_ = false;
  bool aborted_ = false;
};

template <class Next>
void WebSocket<Next>::accept(const HttpRequest& request, const Headers& more) {
  namespace http = boost::beast::http;
  request_.method(http::verb::get);
  request_.target("/");
  request_.version(11);
  for (const auto& [name, value] : request.headers) request_.insert(name, value);
  stream_->set_option(boost::beast::websocket::stream_base::decorator(
      [more, id = request.id](boost::beast::websocket::response_type& answer) {
        answer.set(http::field::server, "tandem");
        answer.set("x-request-id", id);
        for (const auto& [name, value] : more) answer.insert(name, value);
      }));
  tick();
  stream_->async_accept(request_, on_done([this](ErrorCode ec) {
                          if (ec || stopping_) return stop(ec);
                          open_ = true;
                          stream_->text(true);
                          read();
                          write();
                        }));
}

template <class Next>
void WebSocket<Next>::read() {
  if (!open_ || reading_ || held_ || stopping_) return;
  reading_ = true;
  stream_->async_read(incoming_, on_done([this](ErrorCode ec) {
                        reading_ = false;
                        if (ec) return stop(ec);
                        take();
                        read();
                      }));
}

template <class Next>
void WebSocket<Next>::take() {
  heard_at_ = Clock::now();
  std::string text = boost::beast::buffers_to_string(incoming_.data());
  incoming_.consume(incoming_.size());
  if (incoming_.capacity() > 65536) incoming_.shrink_to_fit();
  if (closing_ || stopping_) return;
  if (!stream_->got_text()) return close(1003, "messages are texts");
  // (Beast does not see that a character is cut short where the last frame of several is empty.)
  if (unfinished_utf8(text) > 0) return close(1007, "the text is not UTF-8");
  const auto on_message = hooks_.on_message;
  if (on_message) on_message(std::move(text));
}

template <class Next>
bool WebSocket<Next>::send(std::string text) {
  if (closing_ || stopping_) return true;
  unsent_bytes_ += text.size();
  unsent_.push_back(std::move(text));
  if (unsent_bytes_ > limits_.unsent_bytes) {
    abort();
    return false;
  }
  write();
  return true;
}

template <class Next>
void WebSocket<Next>::write() {
  if (!open_ || writing_ || stopping_) return;
  if (unsent_.empty()) {
    if (closing_) say_goodbye();
    return;
  }
  writing_ = true;
  write_began_ = Clock::now();
  stream_->async_write(boost::asio::buffer(unsent_.front()), on_done([this](ErrorCode ec) {
                         writing_ = false;
                         if (ec) return stop(ec);
                         bytes_sent_ += unsent_.front().size();
                         unsent_bytes_ -= unsent_.front().size();
                         unsent_.pop_front();
                         write();
                       }));
}

template <class Next>
void WebSocket<Next>::hold(bool held) {
  if (std::exchange(held_, held) == held) return;
  heard_at_ = Clock::now();
  read();
}

template <class Next>
void WebSocket<Next>::close(uint16_t code, std::string reason) {
  if (closing_ || stopping_) return;
  closing_ = true;
  goodbye_ = {static_cast<boost::beast::websocket::close_code>(code), reason};
  write();
}

template <class Next>
void WebSocket<Next>::say_goodbye() {
  writing_ = true;
  write_began_ = goodbye_at_ = Clock::now();
  stream_->async_close(goodbye_, on_done([this](ErrorCode ec) {
                         clean_ = !ec;
                         stopping_ = true;
                       }));
}

template <class Next>
void WebSocket<Next>::tick() {
  if (ended_) return;
  timer_.expires_after(
      std::min<std::chrono::milliseconds>(limits_.ping_after / 4, std::chrono::seconds(1)));
  timer_.async_wait([weak = this->weak_from_this()](ErrorCode ec) {
    const auto self = weak.lock();
    if (ec || self == nullptr || self->ended_) return;
    self->look_at_clock(Clock::now());
    self->tick();
  });
}

template <class Next>
void WebSocket<Next>::look_at_clock(Clock::time_point now) {
  if (stopping_ || goodbye_at_ != Clock::time_point()) {
    if (goodbye_at_ == Clock::time_point()) goodbye_at_ = now;
    if (now - goodbye_at_ > kGoodbyeTime) abort();
    return;
  }
  const bool silent = !held_ && now - heard_at_ > 2 * limits_.ping_after;
  if (silent || (writing_ && now - write_began_ > limits_.write_timeout)) return abort();
  if (!open_ || held_ || pinging_ || closing_ || now - heard_at_ <= limits_.ping_after) return;
  pinging_ = true;
  stream_->async_ping({}, on_done([this](ErrorCode ec) {
                        pinging_ = false;
                        if (ec) stop(ec);
                      }));
}

// After an error of the stream, or the client's goodbye.
template <class Next>
void WebSocket<Next>::stop(const ErrorCode& ec) {
  stopping_ = true;
  if (ec == boost::beast::websocket::error::closed)
    clean_ = true;
  else
    abort();
}

}  // namespace tandem::server
