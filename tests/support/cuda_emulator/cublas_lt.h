// What the files of the emulated cuBLASLt share: what its handles point to.
#pragma once

#include <cstdint>

#include "cublasLt.h"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N, trans_c = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // D's
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType type;
  uint64_t rows, cols;
  int64_t ld;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  int64_t batch_offset = 0;

  int64_t row_stride() const { return order == CUBLASLT_ORDER_COL ? 1 : ld; }
  int64_t col_stride() const { return order == CUBLASLT_ORDER_COL ? ld : 1; }
};
struct cublasLtMatmulPreferenceOpaque_t {
  uint64_t max_workspace = 0;
};
