// Reductions over a row of logits (row_math.h). Sixteen independent chains, so that the compiler
// vectorises without being allowed to reorder additions.
#include "runtime/sampling/row_math.h"

#include <algorithm>
#include <array>
#include <cmath>

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

}  // namespace tandem
