#include "runtime/execution/ranks/stage_clock.h"

#include "base/check.h"
#include "base/seconds_since.h"

namespace tandem {

void StageClock::begin_step() {
  step_begun_ = Clock::now();
  in_step_ = true;
  waited_ = 0;
}

void StageClock::end_step() {
  if (work_) end_work();
  if (ctx_.on_cpu()) before_.all = of_host();
  in_step_ = false;
}

double StageClock::of_host() const {
  return in_step_ ? before_.all + seconds_since(step_begun_) - waited_ : before_.all;
}

void StageClock::begin_work(bool encoder) {
  TANDEM_CHECK(!work_.has_value(), "work within work");
  work_.emplace();
  work_->encoder = encoder;
  if (ctx_.on_cpu()) {
    work_->since = of_host();
    return;
  }
  settle();
  work_->from = ctx_.backend().mark();
}

void StageClock::end_work() {
  TANDEM_CHECK(work_.has_value(), "no work");
  if (ctx_.on_cpu()) {
    if (work_->encoder) before_.encoder += of_host() - work_->since;
  } else {
    work_->to = ctx_.backend().mark();
    open_.push_back(*work_);
  }
  work_.reset();
}

// Counts what is done, and waits until no more than kMostOpen is not.
void StageClock::settle() {
  if (open_.empty()) return;
  DeviceBackend& backend = ctx_.backend();
  const uint64_t newest = backend.mark();
  while (!open_.empty()) {
    const Work& oldest = open_.front();
    if (newest - oldest.from >= DeviceBackend::kMarksKept) {
      open_.pop_front();
      continue;
    }
    if (open_.size() > kMostOpen)
      backend.wait(oldest.to);
    else if (!backend.reached(oldest.to))
      return;
    const double seconds = backend.seconds_between(oldest.from, oldest.to);
    before_.all += seconds;
    if (oldest.encoder) before_.encoder += seconds;
    open_.pop_front();
  }
}

StageClock::Seconds StageClock::seconds() {
  if (ctx_.on_cpu()) return {of_host(), before_.encoder};
  settle();
  return before_;
}

}  // namespace tandem
