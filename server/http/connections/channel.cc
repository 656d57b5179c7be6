// See channel.h.
//
// In coroutines co_await stands alone or behind `=`, never in a condition or another expression:
// g++ 12 destroys the awaitable twice there.
#include "server/http/connections/channel.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tandem::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr size_t kWatchRead = 512;       // while an answer is under way
constexpr size_t kMaxReadAhead = 16384;  // of later requests, meanwhile
constexpr size_t kMostRead = 16384;      // at once, of a body
constexpr std::chrono::milliseconds kClosingTime{1000};

auto into(error_code& ec) { return asio::redirect_error(asio::use_awaitable, ec); }

}  // namespace

Channel::Channel(Stream::Socket socket, asio::ssl::context* tls, const ServerConfig& config)
    : config_(config),
      stream_(std::move(socket), tls),
      input_(stream_, std::max(config.max_header_bytes, kMaxReadAhead) + kMostRead,
             [this] {
               if (watching_) watch();
               wake();
             }),
      wake_(stream_.get_executor()),
      deadline_(stream_.get_executor(), [this] {
        cancel();
        wake();
      }) {
  error_code ec;
  const auto endpoint = stream_.socket().remote_endpoint(ec);
  if (!ec) remote_ = endpoint.address().to_string();
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ec);
}

void Channel::cancel() {
  error_code ignored;
  stream_.socket().cancel(ignored);
}

void Channel::end_now() {
  gone_ = true;
  error_code ignored;
  stream_.socket().close(ignored);
  wake();
}

void Channel::watch() {
  watching_ = true;
  const auto self = shared_from_this();
  if (input_.size() < kMaxReadAhead) input_.read(self, kWatchRead);
  input_.watch_for_reset(self);
}

asio::awaitable<void> Channel::wait() {
  error_code ignored;
  wake_.expires_at(Clock::time_point::max());
  co_await wake_.async_wait(into(ignored));
}

asio::awaitable<bool> Channel::shake_hands() {
  if (stream_.tls() == nullptr) co_return true;
  set_deadline(config_.header_timeout);
  error_code ec;
  co_await stream_.tls()->async_handshake(asio::ssl::stream_base::server, into(ec));
  clear_deadline();
  co_return !ec;
}

asio::awaitable<bool> Channel::read_more(size_t bytes) {
  const size_t before = input_.size();
  input_.read(shared_from_this(), bytes);
  while (input_.reading()) co_await wait();
  co_return input_.size() > before;
}

// The deadline is for progress: a client that reads slowly, but reads, is served.
asio::awaitable<bool> Channel::send(std::string bytes) {
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

asio::awaitable<void> Channel::close() {
  error_code ec;
  if (!stream_.socket().is_open() || gone()) co_return;
  set_deadline(kClosingTime);
  if (input_.reading()) cancel();
  while (input_.reading()) co_await wait();
  if (stream_.tls() != nullptr) co_await stream_.tls()->async_shutdown(into(ec));
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ec);
  // A body that was refused: many clients read nothing before they have sent it all.
  const size_t most = config_.largest_body() + kMostRead;
  const Clock::time_point latest = Clock::now() + config_.header_timeout;
  for (size_t total = 0; !gone() && !late() && !input_.ended() && total < most;) {
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
