// Sixteen independent chains, so that the compiler
// vectorises without being allowed to reorder additions.
#include "kernels/row_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/isa/isa.h"

namespace tandem {

namespace {

constexpr size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

bool Peak::finite() const { return !has_nan && std::isfinite(value); }

Peak find_peak(std::span<const float> values) {
  cpu::RowPeak peak{-kInfinity, 0, false};
  cpu::isa_kernels().find_peak(values.data(), static_cast<int64_t>(values.size()), peak);
  return {peak.value, static_cast<size_t>(peak.block), peak.has_nan};
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
  cpu::isa_kernels().exp_all(values.data(), static_cast<int64_t>(values.size()), top, out.data());
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
  return cpu::isa_kernels().sum_exp(values.data(), static_cast<int64_t>(values.size()), top);
}

void sum_blocks(std::span<const float> values, float* peaks, float* sums) {
  cpu::isa_kernels().sum_blocks(values.data(), static_cast<int64_t>(values.size()), peaks, sums);
}

Peak peak_of_blocks(std::span<const float> peaks) {
  Peak peak;
  for (size_t i = 0; i < peaks.size(); ++i) {
    if (std::isnan(peaks[i])) {
      peak.has_nan = true;
      peak.block = i * kSumBlock;
      break;
    }
    if (peaks[i] <= peak.value) continue;
    peak.value = peaks[i];
    peak.block = i * kSumBlock;
  }
  return peak;
}

double log_sum_of_blocks(std::span<const float> peaks, std::span<const float> sums,
                         const Peak& peak) {
  if (peak.has_nan || peak.value == kInfinity) return std::numeric_limits<double>::quiet_NaN();
  if (peak.value == -kInfinity) return -kInfinity;
  std::array<float, kSumBlock> factors;
  double sum = 0;
  for (size_t i = 0; i < peaks.size(); i += factors.size()) {
    const size_t count = std::min(factors.size(), peaks.size() - i);
    exp_all(peaks.subspan(i, count), peak.value, factors);
    for (size_t j = 0; j < count; ++j)
      sum += static_cast<double>(factors[j]) * static_cast<double>(sums[i + j]);
  }
  return peak.value + std::log(sum);
}

RowSum sum_row(std::span<const float> values) {
  static thread_local std::vector<float> parts;
  const size_t blocks = (values.size() + kSumBlock - 1) / kSumBlock;
  if (parts.size() < 2 * blocks) parts.resize(2 * blocks);
  const std::span<float> peaks(parts.data(), blocks), sums(parts.data() + blocks, blocks);
  sum_blocks(values, peaks.data(), sums.data());
  const Peak peak = peak_of_blocks(peaks);
  return {peak, log_sum_of_blocks(peaks, sums, peak)};
}

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
