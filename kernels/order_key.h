// The order of floats in selections on the host (devices: cuda/row_order.cuh).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tandem {

// Orders floats as integers; NaN is the largest, -0 equals 0.
inline int32_t order_key(float x) {
  if (x != x) return std::numeric_limits<int32_t>::max();
  const auto bits = std::bit_cast<int32_t>(x + 0.0f);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

}  // namespace tandem
