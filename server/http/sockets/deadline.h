// A client's deadlines. On the connection's strand.
#pragma once

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace tandem::server {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  template <class Executor>
  Deadline(const Executor& executor, std::function<void()> on_expiry)
      : timer_(executor), on_expiry_(std::move(on_expiry)) {}

  // Replaces the one before. `owner` keeps this object; nothing happens once it is gone.
  void set(const std::weak_ptr<void>& owner, std::chrono::milliseconds time) {
    passed_ = false;
    wait(owner, time);
  }
  // A handler that is on its way already sees that it is too early.
  void clear() { timer_.expires_at(Clock::time_point::max()); }
  // The last one has.
  bool passed() const { return passed_; }

 private:
  // The operation to end may have been between two reads, so on_expiry is repeated until it has
  // ended.
  static constexpr std::chrono::milliseconds kAgain{50};

  void wait(const std::weak_ptr<void>& owner, std::chrono::milliseconds time) {
    timer_.expires_after(time);
    timer_.async_wait([this, owner](boost::system::error_code ec) {
      const auto alive = owner.lock();
      if (ec || alive == nullptr || timer_.expiry() > Clock::now()) return;
      passed_ = true;
      wait(owner, kAgain);
      on_expiry_();
    });
  }

  boost::asio::steady_timer timer_;
  const std::function<void()> on_expiry_;
  bool passed_ = false;
};

// A body's time grows with its size: 64 KiB a second are enough.
class BodyTime {
 public:
  explicit BodyTime(std::chrono::milliseconds time) : latest_(Deadline::Clock::now() + time) {}
  // Counts bytes that have come; whether there is more time since the last call.
  bool add(size_t bytes) {
    const size_t before = bytes_ / kPiece;
    bytes_ += bytes;
    latest_ += kMore * static_cast<int>(bytes_ / kPiece - before);
    return bytes_ / kPiece > before;
  }
  std::chrono::milliseconds left() const {
    const auto left = latest_ - Deadline::Clock::now();
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                    std::chrono::milliseconds(0));
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 20;
  static constexpr std::chrono::seconds kMore{16};

  Deadline::Clock::time_point latest_;
  size_t bytes_ = 0;
};

}  // namespace tandem::server
