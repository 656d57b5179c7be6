// Products by cuBLASLt. f32 is f32 throughout (no TF32); other types are summed in f32, and bias
// and ReLU are applied to the sums.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/padded_size.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/host/failure.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/gemm_cache.h"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr size_t kMaxPlans = 8192;
// Of measuring: algorithms, rounds over them, products of each in a round.
constexpr int kCandidates = 8, kRounds = 3, kRepeats = 4;

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

// What products of about the same size have in common.
GemmKey key_of(const GemmShape& s) {
  return {padded_size(s.rows), s.n, s.k, s.type, s.out_type, s.bias, s.relu, s.x_alignment,
          s.out_alignment};
}

cublasLtMatmulAlgo_t to_library(const GemmAlgorithm& bytes) {
  cublasLtMatmulAlgo_t out;
  static_assert(sizeof(out) == sizeof(bytes));
  std::memcpy(&out, &bytes, sizeof(out));
  return out;
}

}  // namespace

GemmCache::GemmCache(void* workspace) : workspace_(workspace) {
  TANDEM_BLAS_CHECK(cublasLtCreate(&handle_));
}

GemmCache::~GemmCache() {
  for (const auto& [shape, plan] : plans_) destroy(plan);
  cudaFree(workspace_);
  cudaFree(flush_);
  cublasLtDestroy(handle_);
}

void GemmCache::destroy(const Plan& plan) {
  cublasLtMatrixLayoutDestroy(plan.w);
  cublasLtMatrixLayoutDestroy(plan.x);
  cublasLtMatrixLayoutDestroy(plan.out);
  cublasLtMatmulDescDestroy(plan.operation);
}

// cuBLASLt thinks in columns: out^T[n, rows] = w^T^T x^T. Its suggestions look at the bias, which
// therefore is there before they are asked for.
GemmCache::Plan GemmCache::make(const GemmShape& s, const Operands& operands) {
  Plan plan;
  const cudaDataType_t type = data_type(s.type), out_type = data_type(s.out_type);
  TANDEM_BLAS_CHECK(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
  if (s.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out_type);
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  }
  const auto n = static_cast<uint64_t>(s.n), k = static_cast<uint64_t>(s.k),
             rows = static_cast<uint64_t>(s.rows);
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.w, type, k, n, s.w_stride));
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.x, type, k, rows, s.x_stride));
  TANDEM_BLAS_CHECK(cublasLtMatrixLayoutCreate(&plan.out, out_type, n, rows, s.out_stride));
  plan.possible = suggest(s, plan);
  return plan;
}

// Ragged steps bring ever new numbers of rows. The library is asked for one of a size (which takes
// it far longer than a product's launch), and says of the others whether the same algorithm fits.
bool GemmCache::suggest(const GemmShape& s, Plan& plan) {
  const GemmKey key = key_of(s);
  if (const auto kept = suggestions_.find(key);
      kept != suggestions_.end() && take(kept->second, plan))
    return true;
  for (const bool f32_sums : {true, false})
    if (const auto found = candidates(s, plan, 1, f32_sums); !found.empty()) {
      plan.algorithm = to_library(found[0]);
      suggestions_.insert_or_assign(key, found[0]);
      return true;
    }
  return false;
}

// The library's suggestions, best first; none of what it does not multiply (which of the odd sizes
// and types, its manual says only in part). `f32_sums`: partial sums are f32, as not all are that
// the library has.
std::vector<GemmAlgorithm> GemmCache::candidates(const GemmShape& s, const Plan& plan, int most,
                                                 bool f32_sums) {
  ++asked_;
  cublasLtMatmulPreference_t preference = nullptr;
  TANDEM_BLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  TANDEM_BLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                           &kWorkspaceBytes, sizeof(kWorkspaceBytes)));
  std::vector<std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t>> wishes = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.x_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.out_alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.out_alignment}};
  if (f32_sums)
    wishes.emplace_back(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  for (const auto& [attribute, value] : wishes)
    TANDEM_BLAS_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.w, plan.x, plan.out, plan.out,
                                     preference, most, results.data(), &count);
  TANDEM_BLAS_CHECK(cublasLtMatmulPreferenceDestroy(preference));
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
    TANDEM_BLAS_CHECK(status);
  std::vector<GemmAlgorithm> out;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i)
    if (const auto& r = results[static_cast<size_t>(i)]; r.state == CUBLAS_STATUS_SUCCESS)
      std::memcpy(&out.emplace_back(), &r.algo, sizeof(r.algo));
  return out;
}

void GemmCache::tune(const std::string& device, int capability, size_t cache_bytes,
                     const std::string& folder, std::function<void(const std::string&)> warn) {
  if (flush_ == nullptr) {
    flush_bytes_ = cache_bytes + cache_bytes / 4;
    if (cudaMalloc(&flush_, flush_bytes_) != cudaSuccess) {
      cudaGetLastError();
      flush_ = nullptr;
      warn("no memory to empty the cache between products that are timed");
    }
  }
  choices_ = std::make_unique<GemmChoices>(
      folder, GemmDevice{device, capability, cublasLtGetVersion()}, std::move(warn));
}

void GemmCache::settle(const GemmShape& s, const Operands& operands, Plan& plan,
                       CudaBackend& backend) {
  plan.settled = true;
  const GemmKey key = key_of(s);
  if (const GemmAlgorithm* kept = choices_->find(key)) return static_cast<void>(take(*kept, plan));
  const auto algorithms = candidates(s, plan, kCandidates, true);
  const int best = fastest(algorithms, operands, plan, backend);
  if (best < 0) return;  // the plan's own stays
  plan.algorithm = to_library(algorithms[static_cast<size_t>(best)]);
  choices_->add(key, algorithms[static_cast<size_t>(best)]);
}

// Of another number of rows, perhaps, or read from a file: the library says if it fits.
bool GemmCache::take(const GemmAlgorithm& kept, Plan& plan) const {
  const cublasLtMatmulAlgo_t algorithm = to_library(kept);
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle_, plan.operation, plan.w, plan.x, plan.out, plan.out,
                              &algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes)
    return false;
  plan.algorithm = algorithm;
  return true;
}

void GemmCache::empty_cache(cudaStream_t stream) const {
  if (flush_ != nullptr) TANDEM_CUDA_CHECK(cudaMemsetAsync(flush_, 0, flush_bytes_, stream));
}

// Its index; -1 where none works. The output is written as often as products are timed: nothing of
// it is read. Rounds over all candidates, so that a change of the device's clock meets all of them.
int GemmCache::fastest(const std::vector<GemmAlgorithm>& algorithms, const Operands& operands,
                       Plan& plan, CudaBackend& backend) const {
  backend.synchronize();  // here, and not below, is waited for other ranks
  cudaEvent_t start = nullptr, end = nullptr;
  TANDEM_CUDA_CHECK(cudaEventCreate(&start));
  TANDEM_CUDA_CHECK(cudaEventCreate(&end));
  const cublasLtMatmulAlgo_t own = plan.algorithm;
  std::vector<float> times(algorithms.size(), std::numeric_limits<float>::infinity());
  std::vector<bool> works(algorithms.size(), true);
  for (int round = 0; round <= kRounds; ++round)  // the first warms up
    for (size_t i = 0; i < algorithms.size(); ++i) {
      if (!works[i]) continue;
      plan.algorithm = to_library(algorithms[i]);
      for (int repeat = 0; works[i] && repeat < kRepeats; ++repeat) {
        empty_cache(backend.stream());
        TANDEM_CUDA_CHECK(cudaEventRecord(start, backend.stream()));
        works[i] = multiply(plan, operands, backend.stream()) == CUBLAS_STATUS_SUCCESS;
        TANDEM_CUDA_CHECK(cudaEventRecord(end, backend.stream()));
        TANDEM_CUDA_CHECK(cudaEventSynchronize(end));
        float time = 0;
        TANDEM_CUDA_CHECK(cudaEventElapsedTime(&time, start, end));
        if (round > 0) times[i] = std::min(times[i], time);
      }
    }
  plan.algorithm = own;
  TANDEM_CUDA_CHECK(cudaEventDestroy(start));
  TANDEM_CUDA_CHECK(cudaEventDestroy(end));
  int best = -1;
  for (size_t i = 0; i < algorithms.size(); ++i)
    if (works[i] && (best < 0 || times[i] < times[static_cast<size_t>(best)]))
      best = static_cast<int>(i);
  return best;
}

cublasStatus_t GemmCache::multiply(const Plan& plan, const Operands& operands,
                                   cudaStream_t stream) const {
  const float one = 1, zero = 0;
  return cublasLtMatmul(handle_, plan.operation, &one, operands.w, plan.w, operands.x, plan.x,
                        &zero, operands.out, plan.out, operands.out, plan.out, &plan.algorithm,
                        workspace_, kWorkspaceBytes, stream);
}

bool GemmCache::run(const GemmShape& shape, const void* x, const void* w, const void* bias,
                    void* out, CudaBackend& backend) {
  if (plans_.size() >= kMaxPlans) {  // ragged steps bring ever new numbers of rows
    for (const auto& [old, plan] : plans_) destroy(plan);
    plans_.clear();
  }
  const Operands operands{x, w, bias, out};
  auto found = plans_.find(shape);
  if (found == plans_.end()) found = plans_.emplace(shape, make(shape, operands)).first;
  Plan& plan = found->second;
  if (!plan.possible) {
    ++refused_;
    return false;
  }
  if (shape.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (choices_ && !plan.settled && !backend.recording()) settle(shape, operands, plan, backend);
  const cublasStatus_t status = multiply(plan, operands, backend.stream());
  if (status != CUBLAS_STATUS_SUCCESS) {
    if (backend.recording())
      throw RecordingRefused(std::string("cublasLtMatmul: ") + cublasLtGetStatusString(status));
    TANDEM_CUDA_CHECK(cudaGetLastError());  // where the device has failed it says so
    check_blas(status, "cublasLtMatmul");
  }
  return true;
}

bool multiply(Context& ctx, const Tensor& x, const Tensor& w, int64_t k, const Tensor& bias,
              bool relu, const Tensor& out) {
  const GemmShape shape{
      x.dim(0),    w.dim(0),      k,    x.row_stride(),  out.row_stride(),  w.dtype(),
      out.dtype(), !bias.empty(), relu, alignment_of(x), alignment_of(out), w.row_stride()};
  auto& backend = static_cast<CudaBackend&>(ctx.backend());
  return backend.gemms().run(shape, x.raw(), w.raw(), bias.raw(), out.raw(), backend);
}

}  // namespace tandem::cuda
