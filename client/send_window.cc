// See send_window.h.
#include "client/send_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::client {
namespace {

constexpr double kShortestWait = 0.1, kLongestWait = 30;  // seconds after a refusal
constexpr int kMostDoublings = 16;

}  // namespace

SendWindow::SendWindow(size_t most)
    : most_(most > 0 ? static_cast<double>(most) : std::numeric_limits<double>::infinity()),
      window_(most_) {}

bool SendWindow::has_room(size_t at_server, double now) const {
  return now >= again_at_ && static_cast<double>(at_server) + 1 <= window_;
}

void SendWindow::refused(size_t at_server, double retry_after, double now) {
  window_ = std::max(1.0, std::min(window_, static_cast<double>(at_server)));
  // Those that were sent together are refused together: that counts once.
  if (now < again_at_) return;
  const double doubled = kShortestWait * std::exp2(refusals_);
  refusals_ = std::min(refusals_ + 1, kMostDoublings);
  again_at_ =
      now + std::clamp(retry_after > 0 ? retry_after : doubled, kShortestWait, kLongestWait);
}

void SendWindow::took(bool finished) {
  refusals_ = 0;
  if (finished) window_ = std::min(most_, window_ + 1 / window_);
}

}  // namespace tandem::client
