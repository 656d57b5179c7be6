// Row arithmetic on logits, shared by the CPU's ops (kernels/sampling_ops.h) and the host's sampler
// (runtime/sampling). The loops are plain and vectorise with baseline flags. The order of additions
// is fixed, so every call gives the same result.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/order_key.h"

namespace tandem {

// e^x for x <= 0, relative error about 1e-7 (2 ulp); 0 below -87, NaN for NaN. Each element is
// computed alike whether or not a loop around it is vectorised.
inline float exp_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;  // 2^n
  // A mask instead of a branch: compilers give up vectorising at the latter.
  const uint32_t keep = 0u - static_cast<uint32_t>(!(x < -87.0f));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p * std::bit_cast<float>(scale)) & keep);
}

// Values are summed in float within a block, in double across blocks.
inline constexpr size_t kRowBlock = 256;
// Values in a block of the sum behind log_sum_exp(). Each block has its own largest value, so that
// ops::linear_best, which never has a whole row, gives the same bits.
inline constexpr size_t kSumBlock = 64;

struct Peak {
  float value = -std::numeric_limits<float>::infinity();  // largest value that is not NaN
  // Start of the block with its first occurrence; with peak_of_blocks(), of the first NaN if any.
  size_t block = 0;
  bool has_nan = false;

  // Whether exp(x - value) makes a distribution: no NaN, and the largest value is finite.
  bool finite() const;
};
Peak find_peak(std::span<const float> values);
// Index of the peak: the first NaN if there is one, else the first of the largest values.
int32_t index_of(const Peak& peak, std::span<const float> values);

// Whether a value is above the limit, or NaN; if the limit is NaN, whether there is a value at all.
bool any_above(std::span<const float> values, float limit);

// out[i] = exp(values[i] - top), top the largest value.
void exp_all(std::span<const float> values, float top, std::span<float> out);
double sum_exp(std::span<const float> values, float top);
// Sum of at most kRowBlock values.
float sum_block(std::span<const float> values);
double sum_all(std::span<const float> values);

// For each block of kSumBlock values: the largest (NaN if one is NaN), and the sum of exp(value -
// largest), 0 if that is not finite. peaks, sums: [ceil(values / kSumBlock)].
void sum_blocks(std::span<const float> values, float* peaks, float* sums);
Peak peak_of_blocks(std::span<const float> peaks);
double log_sum_of_blocks(std::span<const float> peaks, std::span<const float> sums,
                         const Peak& peak);

// log(sum(exp(values))) to about 1e-7 relative; NaN if a value is NaN or +inf, -inf if all are
// -inf.
struct RowSum {
  Peak peak;
  double log_sum;
};
RowSum sum_row(std::span<const float> values);  // reads them once
inline double log_sum_exp(std::span<const float> values) { return sum_row(values).log_sum; }
// Subtracts a log-sum in double.
void log_softmax(std::span<float> values, double log_sum);

// Ids of the k largest, largest first; of equals the lower id first, NaN before all.
std::vector<int32_t> top_ids(std::span<const float> values, size_t k);
// Index of the largest value, the first of equals; the first NaN if there is one (as torch).
int32_t argmax(std::span<const float> values);
// 1 plus the number of values above that one (1 for a NaN).
int32_t rank_of(std::span<const float> values, float value);

}  // namespace tandem
