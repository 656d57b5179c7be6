#include "runtime/media/sound/live/live_turns.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kMemory = 0.98;  // of a window, when the next one is added: about 50 of them
constexpr double kLeastSpread = 0.02, kEnoughSpread = 0.05;  // variances that tell a slope
constexpr double kMostOdd = 4;  // a window that took so many times the mean counts as that

}  // namespace

// --- WindowSeconds -------------------------------------------------------------------------------

void WindowSeconds::add(double at_once, double seconds) {
  at_once = std::max(at_once, 1.0);
  if (weight_ > 0) seconds = std::min(seconds, kMostOdd * seconds_ / weight_);
  for (double* sum : {&weight_, &at_once_, &seconds_, &square_, &product_}) *sum *= kMemory;
  weight_ += 1;
  at_once_ += at_once;
  seconds_ += seconds;
  square_ += at_once * at_once;
  product_ += at_once * seconds;
}

double WindowSeconds::spread() const {
  if (weight_ == 0) return 0;
  const double mean = at_once_ / weight_;
  return square_ / weight_ - mean * mean;
}

int WindowSeconds::best(int sessions) const {
  if (weight_ == 0 || sessions <= 1) return 1;
  const double mean = at_once_ / weight_;
  if (spread() < kLeastSpread) return std::min(sessions, static_cast<int>(std::lround(mean)));
  const double slope = (product_ / weight_ - mean * seconds_ / weight_) / spread();
  const double alone = seconds_ / weight_ - slope * mean;  // `a` of the line
  if (slope <= 0) return sessions;
  if (alone <= 0) return 1;
  const double best = std::sqrt(1.5 * sessions * alone / slope);
  return static_cast<int>(std::lround(std::clamp<double>(best, 1, sessions)));
}

// --- LiveTurns -----------------------------------------------------------------------------------

bool LiveTurns::Turn::has_come() const {
  const MutexLock lock(turns_.mutex_);
  return has_come_;
}

std::unique_ptr<LiveTurns::Turn> LiveTurns::ask(std::function<void()> on_turn) {
  std::unique_ptr<Turn> turn(new Turn(*this, std::move(on_turn)));
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(turn.get());
    calls = grant();
    // Whoever asks sees that its own has come.
    if (turn->has_come_) calls.pop_back();
  }
  for (const auto& call : calls) call();
  return turn;
}

int LiveTurns::room(int sessions) const {
  const bool more = seconds_.spread() < kEnoughSpread && granted_ % kTryMore == kTryMore - 1;
  return seconds_.best(sessions) + (more ? 1 : 0);
}

// Returns the callbacks of those whose turn has come, in their order.
std::vector<std::function<void()>> LiveTurns::grant() {
  std::vector<std::function<void()>> calls;
  while (!waiting_.empty()) {
    if (places_ >= room(static_cast<int>(waiting_.size()) + places_)) break;
    Turn& turn = *waiting_.front();
    waiting_.pop_front();
    turn.has_come_ = true;
    ++places_;
    ++granted_;
    calls.push_back(std::move(turn.on_turn_));
  }
  return calls;
}

// Time goes on to `now`.
void LiveTurns::pass(double now) {
  now = std::max(now, now_);  // threads tell their times in any order
  busy_ += computing_ * (now - now_);
  now_ = now;
}

void LiveTurns::begin(Turn& turn, double now) {
  const MutexLock lock(mutex_);
  TANDEM_CHECK(turn.has_come_, "its turn has not come");
  pass(now);
  if (turn.has_begun_) stop(turn);
  turn.has_begun_ = true;
  turn.begun_ = now_;
  turn.busy_before_ = busy_;
  ++computing_;
}

void LiveTurns::end(Turn& turn, double now) {
  const MutexLock lock(mutex_);
  TANDEM_CHECK(turn.has_begun_, "no turn to end");
  pass(now);
  const double seconds = now_ - turn.begun_;
  if (seconds > 0) seconds_.add((busy_ - turn.busy_before_) / seconds, seconds);
  stop(turn);
}

// Its window is no longer under way.
void LiveTurns::stop(Turn& turn) {
  turn.has_begun_ = false;
  --computing_;
}

void LiveTurns::leave(Turn& turn) {
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex_);
    if (turn.has_begun_) stop(turn);
    if (turn.has_come_)
      --places_;
    else
      waiting_.remove(&turn);
    calls = grant();
  }
  for (const auto& call : calls) call();
}

int LiveTurns::num_waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(waiting_.size());
}

int LiveTurns::num_under_way() const {
  const MutexLock lock(mutex_);
  return places_;
}

void LiveTurns::check_integrity() const {
  const MutexLock lock(mutex_);
  TANDEM_CHECK(0 <= computing_ && computing_ <= places_);
  TANDEM_CHECK(waiting_.empty() || places_ > 0, "somebody waits for nobody");
  for (const Turn* turn : waiting_) TANDEM_CHECK(!turn->has_come_ && !turn->has_begun_);
}

}  // namespace tandem
