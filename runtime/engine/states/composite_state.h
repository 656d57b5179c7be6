// A request that others of the engine's own answer, its parts: a sound by its windows, a document
// by its sentences. To whoever sent it, it is one request with one output. One thread; no I/O.
#pragma once

#include <vector>

#include "runtime/protocol/part_request.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// When the parts of a request were answered, as the request's own metrics. Times in seconds of one
// clock.
class CompositeTimes {
 public:
  explicit CompositeTimes(double arrival) : arrival_(arrival) {}
  void answered(const proto::RequestOutput& part) {
    if (queue_ < 0) queue_ = part.metrics().queue_time();
    num_preemptions_ += part.metrics().num_preemptions();
  }
  void has_text(double now) {
    if (first_text_ < 0) first_text_ = now;
  }
  double arrival() const { return arrival_; }
  void write(double now, proto::RequestMetrics& metrics) const {
    metrics.set_queue_time(queue_ < 0 ? 0 : queue_);
    metrics.set_time_to_first_token(first_text_ < 0 ? 0 : first_text_ - arrival_);
    metrics.set_total_time(now - arrival_);
    metrics.set_num_preemptions(num_preemptions_);
  }

 private:
  double arrival_, queue_ = -1, first_text_ = -1;  // < 0: not yet
  int num_preemptions_ = 0;
};

class CompositeState {
 public:
  CompositeState() = default;
  virtual ~CompositeState() = default;
  CompositeState(const CompositeState&) = delete;
  CompositeState& operator=(const CompositeState&) = delete;

  // The parts that are to be computed now, beside those that have no answer yet; each is answered
  // by take(). Throws InputError: what is asked for cannot be had.
  virtual std::vector<PartRequest> next() = 0;
  // The whole answer to the part of that number; `now` in seconds of the clock of its arrival.
  // Throws InputError if it is none to go on with.
  virtual void take(int number, const proto::RequestOutput& answer, double now) = 0;
  // It has ended, if not well: what parts are made of is let go.
  virtual void stop() = 0;

  // All that there is so far, and it only grows. With metrics once it has finished.
  virtual const proto::RequestOutput& output() const = 0;
  bool finished() const { return output().finished(); }
  // Of sound, which is bounded as long as it is in memory: how much is done, and how much there is.
  virtual double seconds_done() const { return 0; }
  virtual double seconds() const { return 0; }
  virtual void check_integrity() const = 0;
};

}  // namespace tandem
