// Pages of keys and values on a device, as bytes.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "models/model.h"

namespace tandem::testing {

// Data and scales of every layer.
inline std::vector<Tensor> page_tensors(const KvCache& cache) {
  std::vector<Tensor> all;
  for (const KvPages& pages : cache.layers) {
    all.push_back(pages.data);
    if (!pages.scales.empty()) all.push_back(pages.scales);
  }
  return all;
}

inline void fill_pages(Context& ctx, const KvCache& cache, std::mt19937& random) {
  for (const Tensor& pages : page_tensors(cache)) {
    std::vector<uint8_t> bytes(pages.bytes());
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    ctx.backend().copy_in(Tensor::borrow(bytes.data(), pages.shape(), pages.dtype()), pages);
  }
}

// A block of pages in host memory.
inline std::string page_bytes(const Tensor& host, int32_t block) {
  const size_t bytes = host.bytes() / static_cast<size_t>(host.dim(0));
  return {static_cast<const char*>(host.raw()) + static_cast<size_t>(block) * bytes, bytes};
}

}  // namespace tandem::testing
