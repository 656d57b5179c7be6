// Plain products of rows in fixed orders, for ops that are no part of the inner loops of cpu/isa.
// Keys and values of one head, as pages hold them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/core/types.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {

inline float stored(const float* x) { return *x; }
inline float stored(const uint16_t* x) { return bf16_to_float(*x); }
inline float stored(const int8_t* x) { return *x; }

// Sixteen sums side by side, then one of them: the same order whatever the compiler makes of it.
template <class T>
float product(const float* q, const T* k, int64_t size) {
  std::array<float, 16> sums{};
  int64_t d = 0;
  for (; d + 16 <= size; d += 16)
    for (int64_t i = 0; i < 16; ++i) sums[static_cast<size_t>(i)] += q[d + i] * stored(k + d + i);
  for (int64_t i = 0; d + i < size; ++i)
    sums[static_cast<size_t>(i)] += q[d + i] * stored(k + d + i);
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// out += factor * x
template <class T>
void add_scaled(float factor, const T* x, int64_t size, float* out) {
  for (int64_t d = 0; d < size; ++d) out[d] += factor * stored(x + d);
}

// scores[j] = exp(scores[j] - the largest); their sum, in order.
inline float exponentials(float* scores, int64_t count) {
  const float most = *std::max_element(scores, scores + count);
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) sum += scores[j] = std::exp(scores[j] - most);
  return static_cast<float>(sum);
}

// One head's keys and values of a sequence. T: as they are stored.
template <class T>
struct HeadPages {
  const KvPages& pages;
  const KvStrides& strides;
  const int32_t* indices;  // of the sequence's pages
  int64_t head;

  // Of q and key j.
  float product(const float* q, int64_t j) const {
    const int64_t at = place(j);
    return cpu::product(q, data() + at, strides.head_dim) * scale(at);
  }
  // out += factor * value j
  void add_value(float factor, int64_t j, float* out) const {
    const int64_t at = place(j) + strides.kv;
    add_scaled(factor * scale(at), data() + at, strides.head_dim, out);
  }

 private:
  const T* data() const { return static_cast<const T*>(pages.data.raw()); }
  int64_t place(int64_t j) const {
    return indices[j / strides.block_size] * strides.block +
           j % strides.block_size * strides.token + head * strides.head;
  }
  float scale(int64_t at) const {
    return pages.scales.empty() ? 1.0f : pages.scales.data<float>()[at / strides.head_dim];
  }
};

}  // namespace tandem::cpu
