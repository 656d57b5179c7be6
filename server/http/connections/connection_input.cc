#include "server/http/connections/connection_input.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <chrono>

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Long enough for most answers, so that few clients that half-close are probed at all.
constexpr std::chrono::milliseconds kProbeAfter{250};

}  // namespace

ConnectionInput::ConnectionInput(Stream& stream, size_t most_bytes, std::function<void()> on_news)
    : stream_(stream),
      on_news_(std::move(on_news)),
      buffer_(most_bytes),
      probe_(stream.get_executor()) {}

void ConnectionInput::shrink() {
  if (buffer_.size() == 0) buffer_.shrink_to_fit();
}

bool ConnectionInput::skip_empty_lines() {
  const auto front = [this] { return static_cast<const char*>(buffer_.data().data()); };
  while (size() > 1 && front()[0] == '\r' && front()[1] == '\n') consume(2);
  return size() > 1 || (size() == 1 && front()[0] != '\r');
}

void ConnectionInput::read(const std::shared_ptr<void>& owner, size_t bytes) {
  if (reading_ || ended_ || lost_ || full(bytes)) return;
  reading_ = true;
  piece_.resize(bytes);
  piece_.shrink_to_fit();
  stream_.async_read_some(
      asio::buffer(piece_),
      asio::bind_executor(stream_.get_executor(), [this, owner](error_code ec, size_t n) {
        reading_ = false;
        if (n > 0)
          buffer_.commit(asio::buffer_copy(buffer_.prepare(n), asio::buffer(piece_.data(), n)));
        note(ec);
        on_news_();
      }));
}

void ConnectionInput::note(const error_code& ec) {
  if (!ec || ec == asio::error::operation_aborted) return;
  // TLS that ends without its close_notify is an error of its own: the client is lost.
  (ec == asio::error::eof ? ended_ : lost_) = true;
}

void ConnectionInput::watch_for_reset(const std::shared_ptr<void>& owner) {
  if (watching_ || !ended_) return;
  watching_ = true;
  const std::weak_ptr<void> weak = owner;
  stream_.socket().async_wait(Stream::Socket::wait_error, [this, weak](error_code ec) {
    const auto alive = weak.lock();
    if (ec || alive == nullptr) return;
    lost_ = true;
    on_news_();
  });
  probe_.expires_after(kProbeAfter);
  probe_.async_wait([this, weak](error_code ec) {
    const auto alive = weak.lock();
    if (ec || alive == nullptr) return;
    probe_due_ = true;
    on_news_();
  });
}

}  // namespace tandem::server
