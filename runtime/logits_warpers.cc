// The warpers of transformers' logits_process.py, for sampling. All work on the candidates that are
// left, so that what follows top-k is cheap. Probabilities are float32; cumulative sums are kept in
// double and rounded to float32, as torch.cumsum does on a CPU.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "runtime/fast_math.h"
#include "runtime/logits_processors.h"

namespace tandem {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  int32_t id;
  // Among equal logits the lower id is the lesser one (a stable ascending sort).
  bool operator<(const Candidate& other) const {
    return logit != other.logit ? logit < other.logit : id < other.id;
  }
};
using Candidates = std::vector<Candidate>;

// The k-th largest value, 0 < k <= values.size(); no NaN among them.
float kth_largest(std::span<const float> values, size_t k) {
  constexpr size_t kHeapLimit = 512;
  const auto middle = values.begin() + static_cast<long>(k);
  std::vector<float> top(values.begin(), k <= kHeapLimit ? middle : values.end());
  if (k > kHeapLimit) {
    std::nth_element(top.begin(), top.begin() + static_cast<long>(k - 1), top.end(), std::greater<>());
    return top[k - 1];
  }
  std::make_heap(top.begin(), top.end(), std::greater<>());
  for (const float value : values.subspan(k)) {
    if (value <= top.front()) continue;
    std::pop_heap(top.begin(), top.end(), std::greater<>());
    top.back() = value;
    std::push_heap(top.begin(), top.end(), std::greater<>());
  }
  return top.front();
}

Candidates gather(std::span<const float> logits, float threshold) {
  Candidates out;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kMasked && logits[i] >= threshold) out.push_back({logits[i], static_cast<int32_t>(i)});
  return out;
}

float max_logit(const Candidates& c) {
  return std::max_element(c.begin(), c.end(), [](const Candidate& a, const Candidate& b) {
           return a.logit < b.logit;
         })->logit;
}

std::vector<float> softmax(const Candidates& c) {
  const float top = max_logit(c);
  std::vector<float> p(c.size());
  for (size_t i = 0; i < c.size(); ++i) p[i] = exp_nonpositive(c[i].logit - top);
  double sum = 0;
  for (const float e : p) sum += e;
  const auto total = static_cast<float>(sum);
  for (float& e : p) e /= total;
  return p;
}

std::vector<float> log_softmax(const Candidates& c) {
  const float top = max_logit(c);
  double sum = 0;
  for (const Candidate& x : c) sum += exp_nonpositive(x.logit - top);
  const auto log_sum = static_cast<float>(std::log(sum));
  std::vector<float> out(c.size());
  for (size_t i = 0; i < c.size(); ++i) out[i] = (c[i].logit - top) - log_sum;
  return out;
}

float entropy(const std::vector<float>& log_p) {
  double sum = 0;
  for (const float l : log_p) sum -= static_cast<double>(l * std::exp(l));
  return static_cast<float>(sum);
}

// Keeps c[i] where keep(i).
void filter(Candidates& c, const auto& keep) {
  size_t kept = 0;
  for (size_t i = 0; i < c.size(); ++i)
    if (keep(i)) c[kept++] = c[i];
  c.resize(kept);
}

void top_h(Candidates& c, double fraction) {
  constexpr size_t kConsidered = 100;
  std::sort(c.begin(), c.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  c.resize(std::min(c.size(), kConsidered));
  const std::vector<float> log_p = log_softmax(c);
  const float most = entropy(log_p) * static_cast<float>(fraction);
  double sum = 0;
  size_t kept = 0;
  for (; kept < c.size(); ++kept) {
    const float p = std::exp(log_p[kept]);
    sum -= static_cast<double>(p * std::log(p));
    if (!(static_cast<float>(sum) <= most) && kept > 0) break;
  }
  c.resize(kept);
}

void top_k(Candidates& c, int k) {
  if (static_cast<size_t>(k) >= c.size()) return;
  std::vector<float> logits(c.size());
  for (size_t i = 0; i < c.size(); ++i) logits[i] = c[i].logit;
  const float threshold = kth_largest(logits, static_cast<size_t>(k));
  filter(c, [&](size_t i) { return c[i].logit >= threshold; });
}

// Removes, from the least likely up, while the cumulative probability is <= 1 - top_p. Halves the
// range that the boundary lies in until it is small enough to sort.
void top_p(Candidates& c, double keep_mass) {
  const auto threshold = static_cast<float>(1.0 - keep_mass);
  struct Weighted {
    Candidate candidate;
    float p;
    bool operator<(const Weighted& other) const { return candidate < other.candidate; }
  };
  const std::vector<float> p = softmax(c);
  std::vector<Weighted> sorted(c.size());
  for (size_t i = 0; i < c.size(); ++i) sorted[i] = {c[i], p[i]};
  auto begin = sorted.begin(), end = sorted.end();
  double below = 0;  // mass of everything before `begin`, all removed
  constexpr long kSmall = 64;
  while (end - begin > kSmall) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end);
    double mass = below;
    for (auto it = begin; it != middle; ++it) mass += it->p;
    if (static_cast<float>(mass) <= threshold) {
      begin = middle;
      below = mass;
    } else {
      end = middle;
    }
  }
  std::sort(begin, end);
  for (; begin != end; ++begin) {
    below += begin->p;
    if (!(static_cast<float>(below) <= threshold)) break;
  }
  if (begin == sorted.end()) --begin;  // the most likely one always stays
  Candidate least = begin->candidate;
  filter(c, [&](size_t i) { return !(c[i] < least); });
}

void min_p(Candidates& c, double fraction) {
  const std::vector<float> p = softmax(c);
  const float threshold = static_cast<float>(fraction) * *std::max_element(p.begin(), p.end());
  filter(c, [&](size_t i) { return p[i] >= threshold; });
}

void typical(Candidates& c, double mass) {
  const std::vector<float> log_p = log_softmax(c);
  const float expected = entropy(log_p);
  std::vector<float> distance(c.size());
  for (size_t i = 0; i < c.size(); ++i) distance[i] = std::fabs(-log_p[i] - expected);
  std::vector<uint32_t> order(c.size());
  for (size_t i = 0; i < c.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return distance[a] < distance[b]; });
  const std::vector<float> p = softmax(c);
  double sum = 0;
  size_t last = 0;
  for (; last < order.size(); ++last) {
    sum += p[order[last]];
    if (!(static_cast<float>(sum) < static_cast<float>(mass))) break;
  }
  if (last == order.size()) return;
  const float farthest = distance[order[last]];
  filter(c, [&](size_t i) { return distance[i] <= farthest; });
}

// Removes what is less likely than `threshold`, but never the most likely ones.
void cut_below(Candidates& c, float threshold) {
  const std::vector<float> p = softmax(c);
  const float top = max_logit(c);
  filter(c, [&](size_t i) { return p[i] >= threshold || c[i].logit >= top; });
}

void eta_cutoff(Candidates& c, double epsilon) {
  const auto e = static_cast<float>(epsilon);
  cut_below(c, std::min(e, std::sqrt(e) * std::exp(-entropy(log_softmax(c)))));
}

}  // namespace

void warp_logits(const proto::SamplingParams& p, std::span<float> logits) {
  if (p.temperature() != 0.0 && p.temperature() != 1.0) {
    const auto temperature = static_cast<float>(p.temperature());
    for (float& logit : logits) logit /= temperature;
  }
  const bool filters = p.top_h() > 0 || p.top_k() > 0 || p.top_p() < 1.0 || p.min_p() > 0 ||
                       (p.typical_p() > 0 && p.typical_p() < 1.0) || p.epsilon_cutoff() > 0 ||
                       p.eta_cutoff() > 0;
  // A row with NaN or +inf has no probabilities; the sampler takes its argmax.
  const bool valid = std::all_of(logits.begin(), logits.end(), [](float x) {
    return x < std::numeric_limits<float>::infinity();
  });
  if (!filters || !valid || logits.empty()) return;
  const bool by_threshold = !(p.top_h() > 0) && p.top_k() > 0 && static_cast<size_t>(p.top_k()) < logits.size();
  Candidates c = gather(logits, by_threshold ? kth_largest(logits, static_cast<size_t>(p.top_k())) : kMasked);
  if (c.empty()) return;
  if (p.top_h() > 0) top_h(c, p.top_h());
  if (p.top_k() > 0) top_k(c, p.top_k());
  if (p.top_p() < 1.0) top_p(c, p.top_p());
  if (p.min_p() > 0) min_p(c, p.min_p());
  if (p.typical_p() > 0 && p.typical_p() < 1.0) typical(c, p.typical_p());
  if (p.epsilon_cutoff() > 0) cut_below(c, static_cast<float>(p.epsilon_cutoff()));
  if (p.eta_cutoff() > 0) eta_cutoff(c, p.eta_cutoff());
  std::fill(logits.begin(), logits.end(), kMasked);
  for (const Candidate& x : c) logits[static_cast<size_t>(x.id)] = x.logit;
}

}  // namespace tandem
