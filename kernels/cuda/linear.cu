// Products by cuBLASLt. f32 is f32 throughout (no TF32); other types are summed in f32, and bias
// and ReLU are applied to the sums.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/gemm_cache.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what NVIDIA advises for Hopper
constexpr size_t kMaxPlans = 8192;

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    ::tandem::detail::check_failed(__FILE__, __LINE__,
                                   std::string(call) + ": " + cublasLtGetStatusString(status));
}
#define TANDEM_BLAS_CHECK(call) check_blas((call), #call)

cudaDataType_t data_type(DType t) {
  switch (t) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kF16: return CUDA_R_16F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kU8: return CUDA_R_8F_E4M3;  // bytes are multiplied as these only
    default: TANDEM_CHECK(false, "no type of a product");
  }
  return CUDA_R_32F;
}

template <class Value>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  TANDEM_BLAS_CHECK(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof(value)));
}

// The largest power of two up to 256 that every row begins at a multiple of.
uint32_t alignment_of(const Tensor& t) {
  const auto bits = reinterpret_cast<uintptr_t>(t.raw()) |
                    static_cast<uintptr_t>(t.row_stride()) * size_of(t.dtype()) | 256u;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

cublasLtEpilogue_t epilogue_of(const GemmShape& s) {
  if (s.bias) return s.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  return s.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

// Elements of a file to those of a weight.
void convert(const MatrixView& part, int64_t row, DType to, void* out) {
  const auto* from = static_cast<const std::byte*>(part.data) +
                     static_cast<size_t>(row * part.row_stride) * size_of(part.dtype);
  if (part.dtype == to) {
    std::memcpy(out, from, static_cast<size_t>(part.columns) * size_of(to));
    return;
  }
  for (int64_t i = 0; i < part.columns; ++i) {
    float x = 0;
    if (part.dtype == DType::kF32) {
      std::memcpy(&x, from + 4 * i, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, 2);
      x = part.dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
    }
    if (to == DType::kF32) {
      static_cast<float*>(out)[i] = x;
    } else if (to == DType::kBF16) {
      static_cast<uint16_t*>(out)[i] = float_to_bf16(x);
    } else {
      static_cast<uint16_t*>(out)[i] = float_to_f16(x);
    }
  }
}

}  // namespace

GemmCache::GemmCache() {
  TANDEM_BLAS_CHECK(cublasLtCreate(&handle_));
  TANDEM_CUDA_CHECK(cudaMalloc(&workspace_, kWorkspaceBytes));
}

GemmCache::~GemmCache() {
  for (const auto& [shape, plan] : plans_) destroy(plan);
  cudaFree(workspace_);
  cublasLtDestroy(handle_);
}

void GemmCache::destroy(const Plan& plan) {
  cublasLtMatrixLayoutDestroy(plan.w);
  cublasLtMatrixLayoutDestroy(plan.x);
  cublasLtMatrixLayoutDestroy(plan.out);
  cublasLtMatmulDescDestroy(plan.operation);
}

// cuBLASLt thinks in columns: out^T[n, rows] = w^T^T x^T.
GemmCache::Plan GemmCache::make(const GemmShape& s) {
  Plan plan;
  const cudaDataType_t type = data_type(s.type), out_type = data_type(s.out_type);
  TANDEM_BLAS_CHECK(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
  if (s.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out_type);
  const auto n = static_cast<uint64_t>(s.n), k = static_cast<uint64_t>(s.k),
             rows = static_cast<uint64_t>(s.rows);
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.w, type, k, n, s.w_stride));
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.x, type, k, rows, s.x_stride));
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.out, out_type, n, rows, s.out_stride));
  cublasLtMatmulPreference_t preference = nullptr;
  TANDEM_BLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  TANDEM_BLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
  const std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.x_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.out_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.out_alignment}};
  for (const auto& [attribute, bytes] : alignments)
    TANDEM_BLAS_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof(bytes)));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  TANDEM_BLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.operation, plan.w, plan.x, plan.out, plan.out, preference, 1, &result, &found));
  TANDEM_BLAS_CHECK(cublasLtMatmulPreferenceDestroy(preference));
  TANDEM_CHECK_GE(found, 1);
  plan.algorithm = result.algo;
  return plan;
}

void GemmCache::run(const GemmShape& shape, const void* x, const void* w, const void* bias,
                    void* out, cudaStream_t stream) {
  if (plans_.size() >= kMaxPlans) {  // ragged steps bring ever new numbers of rows
    for (const auto& [old, plan] : plans_) destroy(plan);
    plans_.clear();
  }
  auto found = plans_.find(shape);
  if (found == plans_.end()) found = plans_.emplace(shape, make(shape)).first;
  const Plan& plan = found->second;
  if (shape.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1, zero = 0;
  TANDEM_BLAS_CHECK(cublasLtMatmul(handle_, plan.operation, &one, w, plan.w, x, plan.x, &zero, out,
                                   plan.out, out, plan.out, &plan.algorithm, workspace_,
                                   kWorkspaceBytes, stream));
}

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  int64_t rows = 0;
  for (const MatrixView& part : parts) rows += part.rows;
  const int64_t columns = parts[0].columns;
  Tensor weight = ctx.backend().allocate({rows, columns}, dtype);
  if (rows * columns == 0) return weight;
  // Some megabytes at a time: converted by all threads, then on their way while the next ones are.
  const int64_t chunk = std::max<int64_t>(1, (int64_t{4} << 20) / (columns * 4));
  Tensor host({std::min(chunk, rows), columns}, dtype);
  int64_t to = 0;
  for (const MatrixView& part : parts) {
    for (int64_t row = 0; row < part.rows; row += chunk) {
      const int64_t count = std::min(chunk, part.rows - row);
      ctx.pool().run(
          count, [&](int64_t i, int) { convert(part, row + i, dtype, host.rows(i, i + 1).raw()); });
      ctx.backend().copy_in(host.rows(0, count), weight.rows(to, to + count));
      to += count;
    }
  }
  return weight;
}

void multiply(Context& ctx, const Tensor& x, const Tensor& w, int64_t k, const Tensor& bias,
              bool relu, const Tensor& out) {
  const GemmShape shape{
      x.dim(0),    w.dim(0),      k,    x.row_stride(),  out.row_stride(),  w.dtype(),
      out.dtype(), !bias.empty(), relu, alignment_of(x), alignment_of(out), w.row_stride()};
  auto& backend = static_cast<CudaBackend&>(ctx.backend());
  backend.gemms().run(shape, x.raw(), w.raw(), bias.raw(), out.raw(), backend.stream());
}

}  // namespace tandem::cuda
