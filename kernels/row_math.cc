// Sixteen independent chains, so that the compiler
// vectorises without being allowed to reorder additions.
#include "kernels/row_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tandem {

namespace {

constexpr size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

bool Peak::finite() const { return !has_nan && std::isfinite(value); }

Peak find_peak(std::span<const float> values) {
  Peak peak;
  size_t i = 0;
  for (; i + kRowBlock <= values.size(); i += kRowBlock) {
    std::array<float, kLanes> top;
    std::array<int32_t, kLanes> nan{};
    top.fill(-kInfinity);
    for (size_t j = 0; j < kRowBlock; j += kLanes)
      for (size_t l = 0; l < kLanes; ++l) {
        const float x = values[i + j + l];
        top[l] = x > top[l] ? x : top[l];
        nan[l] |= x != x ? 1 : 0;
      }
    float best = -kInfinity;
    for (size_t l = 0; l < kLanes; ++l) {
      best = std::max(best, top[l]);
      peak.has_nan |= nan[l] != 0;
    }
    if (best > peak.value) {
      peak.value = best;
      peak.block = i;
    }
  }
  for (const size_t tail = i; i < values.size(); ++i) {
    peak.has_nan |= std::isnan(values[i]);
    if (values[i] > peak.value) {
      peak.value = values[i];
      peak.block = tail;
    }
  }
  return peak;
}

int32_t index_of(const Peak& peak, std::span<const float> values) {
  const auto found =
      peak.has_nan
          ? std::find_if(values.begin(), values.end(), [](float x) { return std::isnan(x); })
          : std::find(values.begin() + static_cast<long>(peak.block), values.end(), peak.value);
  return found == values.end() ? 0 : static_cast<int32_t>(found - values.begin());
}

bool any_above(std::span<const float> values, float limit) {
  std::array<int32_t, kLanes> above{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) above[l] |= !(values[i + l] <= limit) ? 1 : 0;
  bool any = false;
  for (const int32_t a : above) any |= a != 0;
  for (; i < values.size(); ++i) any |= !(values[i] <= limit);
  return any;
}

void exp_all(std::span<const float> values, float top, std::span<float> out) {
  const float* const in = values.data();
  float* const to = out.data();
  for (size_t i = 0; i < values.size(); ++i) to[i] = exp_nonpositive(in[i] - top);
}

float sum_block(std::span<const float> values) {
  std::array<float, kLanes> part{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) part[l] += values[i + l];
  for (size_t l = 0; i < values.size(); ++i, ++l) part[l] += values[i];
  float sum = 0;
  for (const float p : part) sum += p;
  return sum;
}

double sum_all(std::span<const float> values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += kRowBlock)
    sum += sum_block(values.subspan(i, std::min(kRowBlock, values.size() - i)));
  return sum;
}

double sum_exp(std::span<const float> values, float top) {
  std::array<float, kRowBlock> block;
  double sum = 0;
  for (size_t i = 0; i < values.size(); i += kRowBlock) {
    const auto part = values.subspan(i, std::min(kRowBlock, values.size() - i));
    exp_all(part, top, block);
    sum += sum_block(std::span<const float>(block).first(part.size()));
  }
  return sum;
}

double log_sum_exp(std::span<const float> values, const Peak& peak) {
  if (peak.has_nan || peak.value == kInfinity) return std::numeric_limits<double>::quiet_NaN();
  if (peak.value == -kInfinity) return -kInfinity;
  return peak.value + std::log(sum_exp(values, peak.value));
}

double log_sum_exp(std::span<const float> values) { return log_sum_exp(values, find_peak(values)); }

void log_softmax(std::span<float> values, double log_sum) {
  for (float& x : values) x = static_cast<float>(x - log_sum);
}

std::vector<int32_t> top_ids(std::span<const float> values, size_t k) {
  struct Entry {
    int32_t key, id;
  };
  const auto before = [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key > b.key : a.id < b.id;
  };
  k = std::min(k, values.size());
  std::vector<Entry> heap;  // its front is the least of the best so far
  const auto offer = [&](size_t i) {
    const Entry entry{order_key(values[i]), static_cast<int32_t>(i)};
    if (heap.size() == k) {
      if (!before(entry, heap.front())) return;
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.pop_back();
    }
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end(), before);
  };
  // Soon most blocks have nothing above the least, which is quickly said.
  for (size_t i = 0; i < values.size() && k > 0; i += kRowBlock) {
    const size_t end = std::min(values.size(), i + kRowBlock);
    if (heap.size() == k &&
        !any_above(values.subspan(i, end - i), values[static_cast<size_t>(heap.front().id)]))
      continue;
    for (size_t j = i; j < end; ++j) offer(j);
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  std::vector<int32_t> ids;
  for (const Entry& entry : heap) ids.push_back(entry.id);
  return ids;
}

int32_t argmax(std::span<const float> values) { return index_of(find_peak(values), values); }

int32_t rank_of(std::span<const float> values, float value) {
  int32_t rank = 1;
  for (const float x : values) rank += x > value ? 1 : 0;
  return rank;
}

}  // namespace tandem
