// cuBLASLt, with what it takes to call it kept for each shape that was seen.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <compare>
#include <cstdint>
#include <map>

#include "kernels/core/types.h"

namespace tandem::cuda {

// Row-major out[rows, n] = x[rows, k] w[n, k]^T, then the epilogue.
struct GemmShape {
  int64_t rows, n, k, x_stride, out_stride;
  DType type, out_type;  // of x and w (u8: e4m3); of out and bias
  bool bias, relu;
  uint32_t x_alignment, out_alignment;  // bytes, 256 at most: not every kernel takes every address
  int64_t w_stride;
  auto operator<=>(const GemmShape&) const = default;
};

class GemmCache {
 public:
  GemmCache();
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  void run(const GemmShape& shape, const void* x, const void* w, const void* bias, void* out,
           cudaStream_t stream);

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  static void destroy(const Plan& plan);
  Plan make(const GemmShape& shape);

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<GemmShape, Plan> plans_;
};

}  // namespace tandem::cuda
