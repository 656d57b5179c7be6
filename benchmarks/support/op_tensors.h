// Tensors for benchmarks of ops, and their comparison with the reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"

namespace tandem::bench {

inline Tensor random_matrix(int64_t rows, int64_t columns) {
  static std::minstd_rand engine(1);
  Tensor t({rows, columns}, DType::kF32);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = uniform(engine);
  return t;
}

inline void expect_near(const Tensor& got, const Tensor& expected, double tolerance,
                        const std::string& what) {
  for (int64_t i = 0; i < got.dim(0); ++i)
    for (int64_t j = 0; j < got.dim(1); ++j) {
      const double a = got.row<float>(i)[j], b = expected.row<float>(i)[j];
      if (std::abs(a - b) <= tolerance * (1 + std::abs(b))) continue;
      std::fprintf(stderr, "%s is wrong at [%ld, %ld]: %g, expected %g\n", what.c_str(),
                   static_cast<long>(i), static_cast<long>(j), a, b);
      std::exit(1);
    }
}

inline Tensor index_tensor(const std::vector<int32_t>& values) {
  Tensor t({static_cast<int64_t>(values.size())}, DType::kI32);
  std::memcpy(t.raw(), values.data(), t.bytes());
  return t;
}

}  // namespace tandem::bench
