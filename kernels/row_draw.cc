#include "kernels/row_draw.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "kernels/row_math.h"

namespace tandem {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Few are expected to reach the threshold.
Candidates gather_from(std::span<const float> logits, float threshold) {
  Candidates out;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kMasked && logits[i] >= threshold)) continue;
    out.logits.push_back(logits[i]);
    out.ids.push_back(static_cast<int32_t>(i));
  }
  return out;
}

Candidates gather_all(std::span<const float> logits) {
  Candidates out;
  out.logits.assign(logits.begin(), logits.end());
  out.ids.resize(logits.size());
  std::iota(out.ids.begin(), out.ids.end(), 0);
  out.filter([&](size_t i) { return logits[i] > kMasked; });
  return out;
}

}  // namespace

float kth_largest(std::span<const float> values, size_t k) {
  constexpr size_t kHeapLimit = 512;
  const auto middle = values.begin() + static_cast<long>(k);
  std::vector<float> top(values.begin(), k <= kHeapLimit ? middle : values.end());
  if (k > kHeapLimit) {
    std::nth_element(top.begin(), top.begin() + static_cast<long>(k - 1), top.end(),
                     std::greater<>());
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

Candidates candidates_of(std::span<const float> logits, size_t most) {
  return most > 0 && most < logits.size() ? gather_from(logits, kth_largest(logits, most))
                                          : gather_all(logits);
}

float max_logit(const Candidates& c) { return find_peak(c.logits).value; }

std::vector<float> softmax(const Candidates& c) {
  std::vector<float> p(c.size());
  exp_all(c.logits, max_logit(c), p);
  const auto total = static_cast<float>(sum_all(p));
  for (float& e : p) e /= total;
  return p;
}

void keep_top_k(Candidates& c, size_t k) {
  if (k >= c.size()) return;
  const float threshold = kth_largest(c.logits, k);
  c.filter([&](size_t i) { return c.logits[i] >= threshold; });
}

// Only the bucket of logits that the boundary falls into is sorted.
void drop_tail(Candidates& c, float tail, float kept) {
  constexpr size_t kBuckets = 1024;  // bucket 0: the largest logits; width 1/16, the last one open
  const std::vector<float> p = softmax(c);
  const float top = max_logit(c);
  const auto bucket_of = [&](size_t i) {
    return static_cast<size_t>(
        std::min((top - c.logits[i]) * 16.0f, static_cast<float>(kBuckets - 1)));
  };
  std::array<double, kBuckets> mass{};
  for (size_t i = 0; i < c.size(); ++i) mass[bucket_of(i)] += p[i];
  double below = 0;
  size_t boundary = kBuckets - 1;
  for (; boundary > 0 && static_cast<float>(below + mass[boundary]) <= tail; --boundary)
    below += mass[boundary];
  std::vector<uint32_t> order;
  for (size_t i = 0; i < c.size(); ++i)
    if (bucket_of(i) == boundary) order.push_back(static_cast<uint32_t>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return c.logits[a] < c.logits[b]; });
  std::vector<bool> removed(order.empty() ? 0 : c.size(), false);
  const size_t most = boundary > 0 ? order.size() : order.size() - 1;  // the most likely one stays
  for (size_t i = 0; i < most; ++i) {
    below += p[order[i]];
    if (!(static_cast<float>(below) <= tail)) break;
    removed[order[i]] = true;
  }
  c.filter([&](size_t i) {
    const size_t bucket = bucket_of(i);
    return bucket < boundary || (bucket == boundary && !removed[i]) || c.logits[i] >= kept;
  });
}

void keep_min_p(Candidates& c, float fraction, float kept) {
  const std::vector<float> p = softmax(c);
  const float threshold = fraction * find_peak(p).value;
  c.filter([&](size_t i) { return p[i] >= threshold || c.logits[i] >= kept; });
}

int32_t draw_from(std::span<const float> logits, double uniform) {
  const Peak peak = find_peak(logits);
  if (!peak.finite()) return index_of(peak, logits);
  static thread_local std::vector<float> weights;
  weights.resize(logits.size());
  exp_all(logits, peak.value, weights);
  const auto block_at = [&](size_t i) {
    return std::span<const float>(weights).subspan(i, std::min(kRowBlock, weights.size() - i));
  };
  const double target = uniform * sum_all(weights);
  double sum = 0;
  size_t start = 0;  // of the block that the target falls into
  for (size_t i = 0; i < weights.size(); i += kRowBlock) {
    const double weight = sum_block(block_at(i));
    if (weight == 0) continue;
    start = i;
    if (sum + weight > target) break;
    sum += weight;
  }
  size_t last = start;  // the last entry with any weight: rounding cannot lead past it
  const auto block = block_at(start);
  for (size_t i = 0; i < block.size(); ++i) {
    if (block[i] == 0) continue;
    sum += block[i];
    last = start + i;
    if (sum > target) break;
  }
  return static_cast<int32_t>(last);
}

}  // namespace tandem
