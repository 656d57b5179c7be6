// Memory of a device that grows and keeps what it holds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/context.h"

namespace tandem {

// `have`, or at least `first`, doubled until it is `want`.
inline int64_t grown(int64_t have, int64_t first, int64_t want) {
  int64_t size = std::max(have, first);
  while (size < want) size *= 2;
  return size;
}

// A larger matrix (or vector) with the contents of a smaller one (or of none) in its corner. The
// old one may go after synchronize().
inline Tensor enlarged(Context& ctx, const Tensor& old, const Shape& shape, DType dtype) {
  const Tensor larger = ctx.backend().allocate(shape, dtype);
  if (old.empty()) return larger;
  if (old.rank() == 1) {
    const int64_t n = old.dim(0);
    ctx.backend().copy_matrix(old.reshape({1, n}), larger.rows(0, n).reshape({1, n}));
  } else {
    ctx.backend().copy_matrix(old, larger.rows(0, old.dim(0)).columns(0, old.dim(1)));
  }
  return larger;
}

}  // namespace tandem
