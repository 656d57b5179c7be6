// What the checks of ops that choose tokens share.
#pragma once

#include "kernels/check/check_args.h"

namespace tandem::ops {

// The selection of each row: the k best, and the first of them once more.
inline void check_chosen(const Tensor& ids, const Tensor& values, const Tensor& best, int64_t rows,
                         int64_t k) {
  const int64_t chosen[] = {rows, k};
  check_shape_and_type(ids, chosen, 2, DType::kI32);
  check_shape_and_type(values, chosen, 2, DType::kF32);
  if (best.empty()) return;
  TANDEM_CHECK_GE(best.dim(0), rows);
  check_vector(best, best.dim(0), DType::kI32);
}

}  // namespace tandem::ops
