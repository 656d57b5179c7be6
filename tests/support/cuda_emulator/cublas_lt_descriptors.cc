// Descriptors of cuBLASLt's products, layouts and preferences.
#include <cstring>

#include "cublas_lt.h"

namespace {

template <class T>
cublasStatus_t take(T& to, const void* value, size_t size) {
  if (!value || size != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, sizeof to);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
  cublasLtPointerMode_t mode = CUBLASLT_POINTER_MODE_HOST;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return take(desc->compute, value, size);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return take(desc->scale, value, size);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      if (const auto status = take(mode, value, size)) return status;
      return mode == CUBLASLT_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS
                                                : CUBLAS_STATUS_NOT_SUPPORTED;
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(desc->trans_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(desc->trans_b, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSC: return take(desc->trans_c, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(desc->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(desc->bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(desc->bias_type, value, size);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, rows, cols, ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t size) {
  if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return take(layout->type, value, size);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return take(layout->order, value, size);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return take(layout->rows, value, size);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return take(layout->cols, value, size);
    case CUBLASLT_MATRIX_LAYOUT_LD: return take(layout->ld, value, size);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return take(layout->batch, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(layout->batch_offset, value, size);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return take(preference->max_workspace, value, size);
  uint32_t ignored;
  return take(ignored, value, size);
}
