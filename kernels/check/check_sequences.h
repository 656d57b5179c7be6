// What the checks of sequence memory and of beam search share.
#pragma once

#include <cstring>

#include "kernels/check/check_args.h"
#include "kernels/sampling_ops.h"

namespace tandem::ops {

// [n, columns] i32, without gaps.
inline void check_table(const Tensor& t, int64_t columns) {
  TANDEM_CHECK_EQ(t.rank(), 2);
  const int64_t dims[] = {t.dim(0), columns};
  check_shape_and_type(t, dims, 2, DType::kI32);
  TANDEM_CHECK(t.contiguous());
}

template <class Entry>
Entry entry_of(const Tensor& table, int64_t i) {
  Entry entry;
  std::memcpy(static_cast<void*>(&entry), table.row<int32_t>(i), sizeof(entry));
  return entry;
}

// `count` elements from `first` on are among `size`.
inline void check_part(int64_t first, int64_t count, int64_t size) {
  TANDEM_CHECK_GE(first, 0);
  TANDEM_CHECK_GE(count, 0);
  TANDEM_CHECK_LE(first + count, size);
}

inline void check_index(int64_t i, int64_t size) { check_part(i, 1, size); }

inline void check_memory_rows(const Tensor& t) {
  TANDEM_CHECK_EQ(t.rank(), 2);
  const int64_t dims[] = {t.dim(0), t.dim(1)};
  check_shape_and_type(t, dims, 2, DType::kI32);
}

inline void check_memory(const SequenceMemory& memory) {
  check_memory_rows(memory.tokens);
  check_memory_rows(memory.pages);
  TANDEM_CHECK_EQ(memory.tokens.dim(0), memory.pages.dim(0));
  check_vector(memory.scores, memory.tokens.dim(0), DType::kF32);
}

}  // namespace tandem::ops
