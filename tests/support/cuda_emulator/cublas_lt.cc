// cuBLASLt's matrix product on the CPU: D = epilogue(alpha op(A) op(B) + beta C).
#include "cublas_lt.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_fp8.h"
#include "sanitizers.h"

namespace {

using Desc = cublasLtMatmulDescOpaque_t;
using Layout = cublasLtMatrixLayoutOpaque_t;

// The bytes of an algorithm: kAlgorithm, its place in this list, its workspace.
constexpr uint64_t kAlgorithm = 0x7a4d;
struct Algorithm {
  size_t workspace;
  uint64_t columns;  // of D: a multiple of it
};
constexpr Algorithm kAlgorithms[] = {{4096, 1}, {0, 1}, {0, 8}, {1024, 2}, {65536, 1}};

// Of the algorithm, if the bytes are one and fit D.
const Algorithm* algorithm_of(const cublasLtMatmulAlgo_t& bytes, const Layout& d) {
  if (bytes.data[0] != kAlgorithm || bytes.data[1] >= std::size(kAlgorithms)) return nullptr;
  const Algorithm& found = kAlgorithms[bytes.data[1]];
  return bytes.data[2] == found.workspace && d.cols % found.columns == 0 ? &found : nullptr;
}

std::mutex times_mutex;
std::vector<std::chrono::microseconds> times;
thread_local int last_used = -1;

float load(const void* data, cudaDataType type, int64_t at) {
  switch (type) {
    case CUDA_R_8F_E4M3: return cuda_emulator::e4m3_to_float(static_cast<const uint8_t*>(data)[at]);
    case CUDA_R_16F: return cuda_emulator::f16_to_float(static_cast<const uint16_t*>(data)[at]);
    case CUDA_R_16BF: return cuda_emulator::bf16_to_float(static_cast<const uint16_t*>(data)[at]);
    default: return static_cast<const float*>(data)[at];
  }
}

void store(void* data, cudaDataType type, int64_t at, float value) {
  switch (type) {
    case CUDA_R_16F: static_cast<uint16_t*>(data)[at] = cuda_emulator::float_to_f16(value); break;
    case CUDA_R_16BF: static_cast<uint16_t*>(data)[at] = cuda_emulator::float_to_bf16(value); break;
    default: static_cast<float*>(data)[at] = value;
  }
}

int64_t type_size(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

// Everything of a call by value: a graph may run it after the descriptors are gone.
struct Product {
  Desc desc;
  Layout la, lb, lc, ld;
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
  void* workspace;
  size_t workspace_size;
  int algorithm = -1;
};

constexpr int kRows = 16, kCols = 4;  // of a tile of D

// sums[j][i] = sum over k of a[k][i] * b[j][k], in this order.
#if defined(__x86_64__) && !defined(__clang__)
__attribute__((optimize("O3", "fp-contract=off")))
#endif
void tile(const float* __restrict__ a, const float* const* b, int64_t k,
          float (&sums)[kCols][kRows]) {
  typedef float Vector __attribute__((vector_size(16)));
  Vector total[kCols][kRows / 4] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vector rows[kRows / 4];
    std::memcpy(rows, a + p * kRows, sizeof rows);
    for (int j = 0; j < kCols; ++j)
      for (int i = 0; i < kRows / 4; ++i) total[j][i] += rows[i] * b[j][p];
  }
  std::memcpy(sums, total, sizeof sums);
}

float activate(float value, int epilogue) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return value > 0 || std::isnan(value) ? value : 0;
  if (epilogue & CUBLASLT_EPILOGUE_GELU)
    return 0.5f * value *
           (1 + std::tanh(0.7978845608f * (value + 0.044715f * value * value * value)));
  return value;
}

template <class T>
T* at_batch(T* data, const Layout& layout, int64_t batch) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<Byte*>(data) + batch * layout.batch_offset * type_size(layout.type);
}

void store_tile(const Product& p, int64_t batch, int64_t row, int64_t col,
                const float (&sums)[kCols][kRows]) {
  const void* c = at_batch(p.c, p.lc, batch);
  void* d = at_batch(p.d, p.ld, batch);
  const int64_t rows = static_cast<int64_t>(p.ld.rows), cols = static_cast<int64_t>(p.ld.cols);
  for (int64_t j = col; j < std::min<int64_t>(col + kCols, cols); ++j)
    for (int64_t i = row; i < std::min<int64_t>(row + kRows, rows); ++i) {
      float value = p.alpha * sums[j - col][i - row];
      if (p.beta != 0)
        value += p.beta * load(c, p.lc.type, i * p.lc.row_stride() + j * p.lc.col_stride());
      if (p.desc.epilogue & CUBLASLT_EPILOGUE_BIAS) value += load(p.desc.bias, p.ld.type, i);
      store(d, p.ld.type, i * p.ld.row_stride() + j * p.ld.col_stride(),
            activate(value, p.desc.epilogue));
    }
}

// Tensor cores of Hopper keep about 14 bits of a sum of e4m3 products (DeepSeek-V3, arXiv
// 2412.19437, 3.3.2); what is beyond is cut off.
void cut_sums(float (&sums)[kCols][kRows]) {
  constexpr uint32_t kKept = ~((uint32_t{1} << (24 - 14)) - 1);
  for (auto& column : sums)
    for (float& sum : column)
      if (std::isfinite(sum)) sum = std::bit_cast<float>(std::bit_cast<uint32_t>(sum) & kKept);
}

int64_t inner(const Desc& desc, const Layout& a) {
  return static_cast<int64_t>(desc.trans_a == CUBLAS_OP_N ? a.cols : a.rows);
}

void multiply(const Product& p, int64_t batch) {
  const int64_t m = static_cast<int64_t>(p.ld.rows), n = static_cast<int64_t>(p.ld.cols);
  const int64_t k = inner(p.desc, p.la);
  const void* a = at_batch(p.a, p.la, batch);
  const void* b = at_batch(p.b, p.lb, batch);
  int64_t a_row = p.la.row_stride(), a_k = p.la.col_stride();
  if (p.desc.trans_a != CUBLAS_OP_N) std::swap(a_row, a_k);
  int64_t b_k = p.lb.row_stride(), b_col = p.lb.col_stride();
  if (p.desc.trans_b != CUBLAS_OP_N) std::swap(b_k, b_col);

  std::vector<float> columns(static_cast<size_t>(n * k)), panel(static_cast<size_t>(k * kRows));
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < k; ++i) columns[j * k + i] = load(b, p.lb.type, i * b_k + j * b_col);
  for (int64_t row = 0; row < m; row += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, m - row);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i)
        panel[i * kRows + r] = load(a, p.la.type, (row + r) * a_row + i * a_k);
    for (int64_t col = 0; col < n; col += kCols) {
      const float* of_columns[kCols];
      for (int j = 0; j < kCols; ++j)
        of_columns[j] = columns.data() + std::min<int64_t>(col + j, n - 1) * k;
      float sums[kCols][kRows];
      tile(panel.data(), of_columns, k, sums);
      if (p.la.type == CUDA_R_8F_E4M3) cut_sums(sums);
      store_tile(p, batch, row, col, sums);
    }
  }
}

bool valid_layout(const Layout& l) {
  const uint64_t least = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;
  return l.rows > 0 && l.cols > 0 && l.ld > 0 && static_cast<uint64_t>(l.ld) >= least &&
         l.batch > 0;
}

// Rows of 16 bytes, A transposed and B not, from compute capability 8.9 on.
bool fp8_supported(const Desc& desc, const Layout& a, const Layout& b, const Layout& d) {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  const auto whole = [](uint64_t elements, const Layout& of) {
    return elements * static_cast<uint64_t>(type_size(of.type)) % 16 == 0;
  };
  return 10 * major + minor >= 89 && desc.trans_a == CUBLAS_OP_T && desc.trans_b == CUBLAS_OP_N &&
         desc.compute == CUBLAS_COMPUTE_32F && a.order == CUBLASLT_ORDER_COL &&
         b.order == CUBLASLT_ORDER_COL && d.order == CUBLASLT_ORDER_COL && whole(a.rows, a) &&
         whole(b.rows, b) && whole(d.rows, d) && whole(static_cast<uint64_t>(a.ld), a) &&
         whole(static_cast<uint64_t>(b.ld), b) && whole(static_cast<uint64_t>(d.ld), d) &&
         (d.type == CUDA_R_32F || d.type == CUDA_R_16BF || d.type == CUDA_R_16F);
}

cublasStatus_t check(const Desc& desc, const Layout& a, const Layout& b, const Layout& c,
                     const Layout& d) {
  for (const Layout* layout : {&a, &b, &c, &d})
    if (!valid_layout(*layout) || layout->batch != d.batch) return CUBLAS_STATUS_INVALID_VALUE;
  const bool turn_a = desc.trans_a != CUBLAS_OP_N, turn_b = desc.trans_b != CUBLAS_OP_N;
  if ((turn_a ? a.cols : a.rows) != d.rows || (turn_b ? b.rows : b.cols) != d.cols ||
      (turn_a ? a.rows : a.cols) != (turn_b ? b.cols : b.rows) || c.rows != d.rows ||
      c.cols != d.cols)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool known = a.type == CUDA_R_32F || a.type == CUDA_R_16F || a.type == CUDA_R_16BF ||
                     a.type == CUDA_R_8F_E4M3;
  if (a.type == CUDA_R_8F_E4M3 && !fp8_supported(desc, a, b, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool supported = known && a.type == b.type && c.type == d.type && c.order == d.order &&
                         (d.type == CUDA_R_32F || d.type == a.type || a.type == CUDA_R_8F_E4M3) &&
                         desc.scale == CUDA_R_32F && desc.compute >= CUBLAS_COMPUTE_32F &&
                         desc.compute <= CUBLAS_COMPUTE_32F_FAST_TF32 &&
                         desc.trans_c == CUBLAS_OP_N;
  if (!supported) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (desc.epilogue & CUBLASLT_EPILOGUE_BIAS && desc.bias_type != -1 && desc.bias_type != d.type)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

void take_time(int algorithm) {
  last_used = algorithm;
  std::chrono::microseconds time{0};
  {
    std::lock_guard lock(times_mutex);
    if (algorithm >= 0 && static_cast<size_t>(algorithm) < times.size()) time = times[algorithm];
  }
  if (time.count() > 0) std::this_thread::sleep_for(time);
}

}  // namespace

namespace cuda_emulator {
void set_algorithm_times(std::vector<std::chrono::microseconds> all) {
  std::lock_guard lock(times_mutex);
  times = std::move(all);
}
int last_algorithm() { return last_used; }
}  // namespace cuda_emulator

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR: return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR: return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unknown status";
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (!handle || !desc || !a || !b || !c || !d || !preference || requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = check(*desc, *a, *b, *c, *d)) return status;
  // The library looks at the pointer's alignment: a null one stands for another product.
  if (desc->epilogue & CUBLASLT_EPILOGUE_BIAS && !desc->bias) return CUBLAS_STATUS_INVALID_VALUE;
  if (std::getenv("TANDEM_EMULATOR_NO_PRODUCTS") != nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (size_t i = 0; i < std::size(kAlgorithms); ++i) {
    const size_t workspace = kAlgorithms[i].workspace;
    const cublasLtMatmulAlgo_t bytes{{kAlgorithm, i, workspace}};
    if (*found == requested || workspace > preference->max_workspace || !algorithm_of(bytes, *d))
      continue;
    results[(*found)++] = {bytes, workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!handle || !desc || !a || !b || !c || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = check(*desc, *a, *b, *c, *d)) return status;
  const Algorithm* algorithm = algorithm_of(*algo, *d);
  if (!algorithm) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {*algo, algorithm->workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_size, cudaStream_t stream) {
  if (!handle || !desc || !alpha || !a || !a_layout || !b || !b_layout || !beta || !c_layout ||
      !d || !d_layout)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = check(*desc, *a_layout, *b_layout, *c_layout, *d_layout)) return status;
  if (a_layout->type == CUDA_R_8F_E4M3 &&
      (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
       reinterpret_cast<uintptr_t>(d)) %
              16 !=
          0)
    return CUBLAS_STATUS_INVALID_VALUE;
  Product p{*desc, *a_layout, *b_layout, *c_layout, *d_layout, 0, 0, a, b, c, d, nullptr, 0};
  std::memcpy(&p.alpha, alpha, sizeof p.alpha);
  std::memcpy(&p.beta, beta, sizeof p.beta);
  if ((p.beta != 0 && !c) || (desc->epilogue & CUBLASLT_EPILOGUE_BIAS && !desc->bias) ||
      (c == d && c && c_layout->ld != d_layout->ld))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algo) {
    const Algorithm* algorithm = algorithm_of(*algo, *d_layout);
    if (!algorithm || algorithm->workspace > workspace_size ||
        (algorithm->workspace > 0 && !workspace))
      return CUBLAS_STATUS_INVALID_VALUE;
    p.workspace = workspace;
    p.workspace_size = algorithm->workspace;
    p.algorithm = static_cast<int>(algo->data[1]);
  }
  const cudaError_t error = cuda_emulator::submit(stream, [p] {
    // Whoever else uses the workspace at this time loses what it had there.
    take_time(p.algorithm);
    if (p.workspace_size > 0) std::memset(p.workspace, 0xff, p.workspace_size);
    for (int32_t batch = 0; batch < p.ld.batch; ++batch) multiply(p, batch);
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
