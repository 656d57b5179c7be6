// The emulated cuBLASLt against a plain product: layouts, types, epilogues.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

template <class T>
constexpr cudaDataType kType = CUDA_R_32F;
template <>
constexpr cudaDataType kType<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType kType<__nv_bfloat16> = CUDA_R_16BF;

struct Shape {
  int m, n, k;
  bool turn_a, turn_b;
  cublasLtEpilogue_t epilogue;
  float alpha, beta;
};

template <class T>
std::vector<T> random_values(std::mt19937& random, size_t size) {
  std::vector<T> values(size);
  std::normal_distribution<float> normal;
  for (T& value : values) value = T(normal(random));
  return values;
}

class EmulatedCublas : public ::testing::Test {
 protected:
  void SetUp() override {
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulPreferenceCreate(&preference_);
  }
  void TearDown() override {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  template <class In, class Out>
  void check(std::mt19937& random, const Shape& s);

  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_;
  cublasLtMatmulPreference_t preference_;
};

template <class In, class Out>
void EmulatedCublas::check(std::mt19937& random, const Shape& s) {
  const int a_rows = s.turn_a ? s.k : s.m, a_cols = s.turn_a ? s.m : s.k;
  const int b_rows = s.turn_b ? s.n : s.k, b_cols = s.turn_b ? s.k : s.n;
  const int lda = a_rows + 3, ldb = b_rows + 1, ldd = s.m + 5;
  const auto a = random_values<In>(random, lda * a_cols),
             b = random_values<In>(random, ldb * b_cols);
  const auto c = random_values<Out>(random, ldd * s.n), bias = random_values<Out>(random, s.m);
  DeviceArray<In> device_a(a), device_b(b);
  DeviceArray<Out> d(c), device_bias(bias);

  cublasLtMatrixLayout_t la, lb, ld;
  cublasLtMatrixLayoutCreate(&la, kType<In>, a_rows, a_cols, lda);
  cublasLtMatrixLayoutCreate(&lb, kType<In>, b_rows, b_cols, ldb);
  cublasLtMatrixLayoutCreate(&ld, kType<Out>, s.m, s.n, ldd);
  set(CUBLASLT_MATMUL_DESC_TRANSA, s.turn_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, s.turn_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.epilogue);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(device_bias.get()));
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(kType<Out>));
  cublasLtMatmulHeuristicResult_t found[4];
  int count = 0;
  ASSERT_EQ(
      cublasLtMatmulAlgoGetHeuristic(handle_, desc_, la, lb, ld, ld, preference_, 4, found, &count),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(count, s.n % 8 == 0 ? 2 : 1);  // without a workspace
  ASSERT_EQ(cublasLtMatmul(handle_, desc_, &s.alpha, device_a.get(), la, device_b.get(), lb,
                           &s.beta, d.get(), ld, d.get(), ld, &found[0].algo, nullptr, 0, nullptr),
            CUBLAS_STATUS_SUCCESS);
  for (cublasLtMatrixLayout_t layout : {la, lb, ld}) cublasLtMatrixLayoutDestroy(layout);

  const auto result = d.values();
  const double tolerance = sizeof(Out) == 4 ? 1e-5 : std::is_same_v<Out, __half> ? 1e-3 : 8e-3;
  for (int j = 0; j < s.n; ++j)
    for (int i = 0; i < ldd; ++i) {
      const float before = c[j * ldd + i], value = result[j * ldd + i];
      if (i >= s.m) {  // between the columns
        ASSERT_EQ(value, before);
        continue;
      }
      double sum = 0, size = 1;
      for (int k = 0; k < s.k; ++k) {
        const double term = double{float(a[s.turn_a ? i * lda + k : k * lda + i])} *
                            float(b[s.turn_b ? k * ldb + j : j * ldb + k]);
        sum += term;
        size += std::fabs(term);
      }
      sum = s.alpha * sum + s.beta * before;
      if (s.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += float(bias[i]);
      if (s.epilogue & CUBLASLT_EPILOGUE_RELU) sum = std::max(sum, 0.0);
      ASSERT_NEAR(value, sum, tolerance * (sizeof(Out) == 4 ? size : std::fabs(sum) + 0.1))
          << i << ", " << j;
    }
}

TEST_F(EmulatedCublas, ProductsOfOddShapes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                          CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS};
  for (int i = 0; i < 24; ++i) {
    const auto up_to = [&](int n) { return static_cast<int>(random() % n) + 1; };
    const Shape shape{up_to(70),
                      up_to(20),
                      up_to(90),
                      i % 2 == 0,
                      i / 2 % 2 == 0,
                      epilogues[i / 4 % 4],
                      i % 3 ? 1.0f : -0.5f,
                      i % 5 ? 0.0f : 2.0f};
    check<float, float>(random, shape);
    check<__half, __half>(random, shape);
    check<__half, float>(random, shape);
    check<__nv_bfloat16, __nv_bfloat16>(random, shape);
    check<__nv_bfloat16, float>(random, shape);
  }
}

TEST_F(EmulatedCublas, BatchesAndRowsAndGraphs) {
  // By rows, two products at once: D = A B.
  DeviceArray<float> a({1, 2, 3, 4, 5, 6, 7, 8}), b({1, 0, 0, 1, 0, 1, 1, 0}), d(8);
  cublasLtMatrixLayout_t layout;
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2);
  const int32_t order = CUBLASLT_ORDER_ROW, batch = 2;
  const int64_t offset = 4;
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                   sizeof batch);
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                   sizeof offset);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  float one = 1, zero = 0;
  EXPECT_EQ(cublasLtMatmul(handle_, desc_, &one, a.get(), layout, b.get(), layout, &zero, d.get(),
                           layout, d.get(), layout, nullptr, nullptr, 0, stream),
            CUBLAS_STATUS_SUCCESS);
  one = 7;
  cublasLtMatrixLayoutDestroy(layout);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  EXPECT_EQ(d.values(), std::vector<float>(8, 0));
  EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(d.values(), (std::vector<float>{1, 2, 3, 4, 6, 5, 8, 7}));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(EmulatedCublas, WorkspacesAndWhatIsNotSupported) {
  const uint64_t most = 1 << 20;
  cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                       sizeof most);
  cublasLtMatrixLayout_t f32, bf16, wide;
  cublasLtMatrixLayoutCreate(&f32, CUDA_R_32F, 4, 4, 4);
  cublasLtMatrixLayoutCreate(&bf16, CUDA_R_16BF, 4, 4, 4);
  cublasLtMatrixLayoutCreate(&wide, CUDA_R_32F, 4, 5, 4);
  cublasLtMatmulHeuristicResult_t found[4];
  int count;
  const auto ask = [&](cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                       cublasLtMatrixLayout_t d) {
    return cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a, b, d, d, preference_, 4, found,
                                          &count);
  };
  ASSERT_EQ(ask(f32, f32, f32), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(count, 4);
  ASSERT_GT(found[0].workspaceSize, 0u);
  DeviceArray<float> data(16);
  const float one = 1, zero = 0;
  EXPECT_EQ(cublasLtMatmul(handle_, desc_, &one, data.get(), f32, data.get(), f32, &zero,
                           data.get(), f32, data.get(), f32, &found[0].algo, nullptr, 0, nullptr),
            CUBLAS_STATUS_INVALID_VALUE);
  // An algorithm's bytes hold for other sizes if the library says so, and other bytes never do.
  const auto fits = [&](const cublasLtMatmulAlgo_t& algorithm, cublasLtMatrixLayout_t x) {
    cublasLtMatmulHeuristicResult_t result;
    return cublasLtMatmulAlgoCheck(handle_, desc_, f32, x, x, x, &algorithm, &result);
  };
  cublasLtMatmulAlgo_t pairs = found[2].algo, broken = found[0].algo;
  broken.data[0] ^= 1;
  EXPECT_EQ(fits(pairs, f32), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(fits(pairs, wide), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(fits(found[0].algo, wide), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(fits(broken, f32), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(ask(f32, bf16, f32), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ask(f32, f32, bf16), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ask(wide, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
  for (cublasLtMatrixLayout_t layout : {f32, bf16, wide}) cublasLtMatrixLayoutDestroy(layout);
}

}  // namespace
}  // namespace tandem::cuda
