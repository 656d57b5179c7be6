// See patience.h.
#include "runtime/engine/core/patience.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kFirstEdge = 0.1, kRatio = 1.1;  // seconds; of an edge to the one before
constexpr double kEvery = 0.1;                    // seconds between two looks at the ages
// Clients of whom nothing is known are assumed at each age, and stay: a few who leave prove little.
constexpr double kAssumed = 5;
constexpr double kFewest = 3;  // who leave, before any of it counts
// Seconds after which an observation counts a third (1/e): so many times as long as clients wait
// who leave, within these.
constexpr double kMemory = 5, kLeastMemory = 30, kMostMemory = 1800;
constexpr double kShareOfAge = 1.0 / 16;  // of the newest in a mean
constexpr double kMostRisk = 0.999;

}  // namespace

double Patience::edge(size_t span) {
  // A line asks for thousands of them at each look.
  static const auto edges = [] {
    std::array<double, kSpans + 1> out{};
    for (size_t k = 1; k <= kSpans; ++k)
      out[k] = kFirstEdge * std::pow(kRatio, static_cast<double>(k - 1));
    return out;
  }();
  return edges[span];
}

size_t Patience::span_of(double age) {
  if (age < kFirstEdge) return 0;
  const auto span = static_cast<size_t>(1 + std::log(age / kFirstEdge) / std::log(kRatio));
  return std::min(span, kSpans - 1);
}

std::shared_ptr<Patience::Stay> Patience::enter(double now) {
  pass(now);
  auto stay = std::make_shared<Stay>();
  stay->arrival = now;
  spans_[0].reached += 1;
  spans_[0].here.push_back(stay);
  return stay;
}

void Patience::left(Stay& stay, double at) {
  if (stay.over) return;
  stay.over = true;
  const size_t span = span_of(at - stay.arrival);
  // Whoever leaves at once was not waiting; and of the longest waits nothing is learnt.
  if (span == 0 || span == kSpans - 1) return;
  spans_[span].left += 1;
  left_ += 1;
  const double age = at - stay.arrival;
  mean_age_ = mean_age_ == 0 ? age : mean_age_ + kShareOfAge * (age - mean_age_);
}

void Patience::pass(double now) {
  if (now < now_ + kEvery) return;
  forget(now - now_);
  now_ = now;
  for (size_t k = 0; k + 1 < kSpans; ++k) {
    Span& span = spans_[k];
    while (!span.here.empty() &&
           (span.here.front()->over || now - span.here.front()->arrival >= edge(k + 1))) {
      if (!span.here.front()->over) {
        spans_[k + 1].reached += 1;
        spans_[k + 1].here.push_back(std::move(span.here.front()));
      }
      span.here.pop_front();
    }
  }
  auto& oldest = spans_[kSpans - 1].here;
  while (!oldest.empty() && oldest.front()->over) oldest.pop_front();
  sum_up();
  ++version_;
}

void Patience::forget(double seconds) {
  const double memory = std::clamp(kMemory * mean_age_, kLeastMemory, kMostMemory);
  const double rest = std::exp(-seconds / memory);
  for (Span& span : spans_) {
    span.reached *= rest;
    span.left *= rest;
  }
  left_ *= rest;
}

void Patience::sum_up() {
  for (size_t k = 0; k < kSpans; ++k) {
    const Span& span = spans_[k];
    const double risk = std::min(kMostRisk, span.left / (span.reached + kAssumed));
    risk_[k + 1] = risk_[k] - std::log1p(-risk);
  }
}

bool Patience::known() const { return left_ >= kFewest; }

double Patience::risk_until(double age) const {
  const size_t k = span_of(age);
  if (k == kSpans - 1) return risk_[k];
  const double part = std::clamp((age - edge(k)) / (edge(k + 1) - edge(k)), 0.0, 1.0);
  return risk_[k] + part * (risk_[k + 1] - risk_[k]);
}

double Patience::stays(double age, double more) const {
  return known() ? std::exp(risk_until(age) - risk_until(age + more)) : 1;
}

void Patience::check_integrity() const {
  double left = 0;
  for (size_t k = 0; k < kSpans; ++k) {
    left += spans_[k].left;
    TANDEM_CHECK(spans_[k].left >= 0 && spans_[k].reached >= 0);
    TANDEM_CHECK(risk_[k + 1] >= risk_[k]);
    for (size_t i = 1; i < spans_[k].here.size(); ++i)
      TANDEM_CHECK(spans_[k].here[i - 1]->arrival <= spans_[k].here[i]->arrival);
  }
  TANDEM_CHECK(std::abs(left - left_) <= 1e-6 * (1 + left));
}

}  // namespace tandem
