// cuBLASLt, with descriptors and algorithm cached for each shape.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/types.h"
#include "kernels/cuda/linear/gemm_choices.h"

namespace tandem::cuda {

class CudaBackend;

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
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what NVIDIA advises for Hopper

  // Takes over the workspace: kWorkspaceBytes from cudaMalloc.
  explicit GemmCache(void* workspace);
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  // On the backend's stream. Returns false and does nothing if the library has no algorithm.
  bool run(const GemmShape& shape, const void* x, const void* w, const void* bias, void* out,
           CudaBackend& backend);
  // How often that happened, and how often the library was asked for suggestions.
  int64_t refused() const { return refused_; }
  int64_t asked() const { return asked_; }
  // DeviceBackend::tune_products. `cache_bytes`: of the device's L2 cache. It is emptied before
  // each timed product, as other weights do in a step.
  void tune(const std::string& device, int capability, size_t cache_bytes,
            const std::string& folder, std::function<void(const std::string&)> warn);

 private:
  struct Operands {
    const void *x, *w, *bias;
    void* out;
  };
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
    bool possible = false;  // the library has an algorithm
    bool settled = false;   // nothing better will be looked for
  };
  static void destroy(const Plan& plan);
  Plan make(const GemmShape& shape, const Operands& operands);
  // Takes the library's first suggestion for products of about this size. False: there is none.
  bool suggest(const GemmShape& shape, Plan& plan);
  std::vector<GemmAlgorithm> candidates(const GemmShape& shape, const Plan& plan, int most,
                                        bool f32_sums);
  // Takes the algorithm kept for products of about this size, or measures the fastest one with
  // these operands.
  void settle(const GemmShape& shape, const Operands& operands, Plan& plan, CudaBackend& backend);
  bool take(const GemmAlgorithm& kept, Plan& plan) const;
  int fastest(const std::vector<GemmAlgorithm>& algorithms, const Operands& operands, Plan& plan,
              CudaBackend& backend) const;
  void empty_cache(cudaStream_t stream) const;
  cublasStatus_t multiply(const Plan& plan, const Operands& operands, cudaStream_t stream) const;

  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<GemmShape, Plan> plans_;
  GemmChoiceMap suggestions_;
  int64_t refused_ = 0, asked_ = 0;
  std::unique_ptr<GemmChoices> choices_;  // null: the library's first suggestion is taken
  void* flush_ = nullptr;                 // as large as flush_bytes_; with choices_
  size_t flush_bytes_ = 0;
};

}  // namespace tandem::cuda
