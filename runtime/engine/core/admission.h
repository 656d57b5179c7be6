// Whether one more request may come in: not if the work that is there already takes longer than it
// would wait. The contract, with its reasons: docs/serving.md ("Overload"). Synchronous, no clock
// of its own; every call is O(1).
//
// Work is counted in tokens that are to be computed (work_of()). How much of it is done in a second
// is measured while there is something to do; what is older than requests take counts little. Only
// a full batch shows what the engine can do: with less, more sequences would have cost little more.
// So the rate of times with a full batch counts, and before there was one the rate of the others,
// which is no more than a lower bound.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct AdmissionConfig {
  double max_queue_time = 0;  // seconds; 0: however long
  int batch = 256;            // sequences that are computed together at little cost
  int most_unmeasured = 256;  // sequences that come in as long as nothing is known about the rate
};

// What a request costs, in tokens of a decoder.
struct RequestWork {
  double input = 0;          // until it generates
  double output = 0;         // at most, of each sequence
  double tokens_a_step = 1;  // that a generated "token" is: of a search, its beams
  int sequences = 1;
};
RequestWork work_of(const proto::EncoderDecoderInputs& inputs, const proto::SamplingParams& params);

class Admission {
 public:
  explicit Admission(const AdmissionConfig& config) : config_(config) {}

  // What is kept of a request that has come in.
  struct Ticket {
    double input = 0, work = 0, done = 0, tokens_a_step = 1;
    int sequences = 0;
  };

  struct Refusal {
    double wait = 0;         // expected; 0: nothing is known yet
    double bound = 0;        // that it exceeds
    double retry_after = 0;  // until it would not
    bool by_deadline = false;
    std::string message() const;
  };
  // Why a request with `timeout` seconds left (0: no limit) is refused; nothing: it may enter.
  // work_before: the part of the present work that is computed before it.
  std::optional<Refusal> refusal(double timeout, double work_before, double now);
  // Whether that is nothing, however much there is.
  bool takes_any(double timeout) const { return config_.max_queue_time <= 0 && timeout <= 0; }
  std::optional<Refusal> refusal(double timeout, double now) {
    return refusal(timeout, work_, now);
  }
  // Seconds until that is done; 0 while there is less than a batch.
  double expected_wait(double work_before, double now);
  double expected_wait(double now) { return expected_wait(work_, now); }
  // Seconds until the next request is likely to end.
  double until_next_end(double now);

  // A request comes in. Until it is known in detail it counts as the mean of those before.
  void enter(Ticket& ticket, double now);
  void size(Ticket& ticket, const RequestWork& work, double now);
  // It has generated so many tokens; beams: rounds.
  void progress(Ticket& ticket, int tokens, double now);
  // It has ended; or is gone, and the rest of its work with it.
  void leave(Ticket& ticket, bool completed, double now);

  int sequences() const { return sequences_; }
  double work() const { return work_; }
  double mean_work() const { return mean_work_; }  // of requests; 0: not known yet
  double work_per_second(double now);              // 0: not known yet

 private:
  // Work a second, the older the less.
  struct Rate {
    double work = 0, time = 0;
    void pass(double seconds, double memory);
    bool known() const;
    double value() const { return work / time; }
  };

  void pass(double now);
  Rate& current() { return sequences_ >= config_.batch ? full_ : partial_; }
  // Null: nothing is known yet.
  const Rate* best() const;
  int taken_anyway() const;
  void credit(Ticket& ticket, double done);

  AdmissionConfig config_;
  double now_ = 0;
  double work_ = 0;  // of all that has not ended; what is done of it included
  int sequences_ = 0, requests_ = 0;
  Rate full_, partial_;
  double mean_work_ = 0, mean_output_ = 0;  // of requests, of sequences; 0: none yet
};

}  // namespace tandem
