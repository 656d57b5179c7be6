// The patience of clients without a stated deadline, learnt from those who leave. The estimator is
// Kaplan and Meier's. A waiting client is a trial at each age that it reaches; leaving is the
// event; a served client is censored. Old observations weigh less. The contract, with its reasons:
// docs/serving.md ("Overload"). Synchronous, no clock; O(1) for each client and age.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace tandem {

class Patience {
 public:
  // One client, from its first request until its last has ended or it has left.
  struct Stay {
    double arrival = 0;
    int requests = 0;  // that have not ended
    double held = 0;   // work of those that wait for a replica
    bool over = false;
  };

  // Times never decrease.
  std::shared_ptr<Stay> enter(double now);
  // It left at that time, which may be a little earlier than now.
  void left(Stay& stay, double at);
  // It has its answers, or an error: no more is known of it.
  void served(Stay& stay) { stay.over = true; }

  // Clients get older, observations too.
  void pass(double now);
  // Changes with what stays() says.
  uint64_t version() const { return version_; }
  // Enough have left lately, for no matter what they were given: else nothing is known.
  bool known() const;
  // Of those who have waited for `age` seconds, the part that waits `more` seconds longer.
  double stays(double age, double more) const;

  // Ages are counted by these: edge(k) is the beginning of the k-th span.
  static constexpr size_t kSpans = 130;
  static double edge(size_t span);

  void check_integrity() const;

 private:
  static size_t span_of(double age);
  void forget(double seconds);
  void sum_up();
  double risk_until(double age) const;

  struct Span {
    double reached = 0, left = 0;                 // clients, the older the less
    std::deque<std::shared_ptr<Stay>> here = {};  // by arrival; some may be over
  };
  std::array<Span, kSpans> spans_;
  std::array<double, kSpans + 1> risk_{};  // summed up to each edge: -log of the part that stays
  double left_ = 0;                        // of all spans
  double mean_age_ = 0;                    // of those who left
  double now_ = 0;
  uint64_t version_ = 0;
};

}  // namespace tandem
