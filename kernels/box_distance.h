// Distances of boxes on a page, as HuggingFace's UDOP has them, in its own arithmetic.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif

namespace tandem {

// From box `from` to box `to`, hundredths of the page, cut towards 0. edge 0: of their middles
// across, 1: down.
TANDEM_HOST_DEVICE inline int32_t box_distance(const float* from, const float* to, int edge) {
  const double here = (static_cast<double>(from[edge]) + static_cast<double>(from[edge + 2])) / 2.0,
               there = (static_cast<double>(to[edge]) + static_cast<double>(to[edge + 2])) / 2.0;
  return static_cast<int32_t>(static_cast<float>(there - here) * 100.0f);
}

}  // namespace tandem
