// Problems for the tests of ops::linear_best on the CPU and on devices. Some entries of a product's
// rows are equal, infinite or not numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

// Of logits: as it is, or with a NaN, an infinity, many or only entries of -infinity.
inline Tensor some_bias(Random& random, int64_t size) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor bias = random.vector(size);
  float* b = bias.data<float>();
  const int64_t kind = random.integer(0, 6), at = random.integer(0, size - 1);
  if (kind == 0) b[at] = std::nanf("");
  if (kind == 1) b[at] = kInf;
  if (kind == 2)
    for (int64_t i = 0; i < size; ++i)
      if (random.integer(0, 2) > 0) b[i] = -kInf;
  if (kind == 3) std::fill_n(b, size, -kInf);
  return bias;
}

// Makes half of a weight's rows those before them, so that logits are equal.
inline void repeat_rows(Random& random, const Tensor& w) {
  for (int64_t i = 1; i < w.dim(0); ++i)
    if (random.integer(0, 1) == 0) std::copy_n(w.row<float>(i - 1), w.dim(1), w.row<float>(i));
}

// Soft caps of logits: none, one that most logits are below, one that many reach, so that they are
// equal.
inline float some_cap(Random& random) { return random.pick({0.0f, 0.0f, 30.0f, 0.2f}); }

// Answers of linear_best() for the parts of a vocabulary. Many values are equal; some are infinite
// or not numbers. Ids are in any order, and a part's differ. Log-sums are those of select().
struct PartsProblem {
  Tensor ids, values, log_sums;  // [parts, rows]
};
inline PartsProblem some_parts(Random& random, int64_t parts, int64_t rows) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  PartsProblem out{Tensor({parts, rows}, DType::kI32), random.matrix(parts, rows),
                   random.matrix(parts, rows, 10.0f)};
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t kind = random.integer(0, 4), shift = random.integer(0, parts - 1);
    for (int64_t part = 0; part < parts; ++part) {
      out.ids.row<int32_t>(part)[row] =
          static_cast<int32_t>(100 * ((part + shift) % parts) + random.integer(0, 99));
      float& value = out.values.row<float>(part)[row];
      float& log_sum = out.log_sums.row<float>(part)[row];
      if (kind == 0) value = random.pick({1.0f, 1.0f, -2.0f});
      if (kind == 1 || (kind == 2 && random.integer(0, 1) == 0)) value = log_sum = -kInf;
      if (kind == 3 && random.integer(0, 2) == 0) {
        value = random.pick({kInf, nan});
        log_sum = nan;
      }
    }
  }
  return out;
}

// `count` rows of `all`, in any order, some of them twice.
inline std::vector<int32_t> some_rows(Random& random, int64_t count, int64_t all) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (int32_t& row : rows) row = static_cast<int32_t>(random.integer(0, all - 1));
  return rows;
}

}  // namespace tandem::testing
