// What the tests of the kernels share: random inputs with a printed seed, comparisons, CPU levels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/cpu_features.h"
#include "kernels/ops.h"
#include "kernels/reference.h"
#include "kernels/sampling_ops.h"

namespace tandem::testing {

// A generator whose seed is printed; TANDEM_TEST_SEED repeats a run.
class Random {
 public:
  Random() {
    const char* given = std::getenv("TANDEM_TEST_SEED");
    const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "seed: TANDEM_TEST_SEED=" << seed << "\n";
    engine_.seed(seed);
  }
  // In [low, high].
  int64_t integer(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  float normal() { return std::normal_distribution<float>()(engine_); }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[integer(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  Tensor matrix(int64_t rows, int64_t columns, float scale = 1.0f) {
    Tensor t({rows, columns}, DType::kF32);
    for (int64_t i = 0; i < rows * columns; ++i) t.data<float>()[i] = scale * normal();
    return t;
  }
  Tensor vector(int64_t size) { return matrix(1, size).reshape({size}); }
  // A matrix whose rows lie apart, with garbage between them.
  Tensor strided(int64_t rows, int64_t columns, float scale = 1.0f) {
    const int64_t left = integer(0, 5), right = integer(0, 5);
    return matrix(rows, left + columns + right, scale).columns(left, left + columns);
  }
  // One whose slope is 1.13 at most, so that bounds of a sum's error hold behind it. The others are
  // tested alone (activation_test.cc).
  Activation gentle_activation() {
    for (;;) {
      const auto a = static_cast<Activation>(integer(0, kNumActivations - 1));
      if (a != Activation::kRelu2 && a != Activation::kLaplace && a != Activation::kHardSwish)
        return a;
    }
  }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

inline Tensor indices(const std::vector<int32_t>& values) {
  Tensor t({static_cast<int64_t>(values.size())}, DType::kI32);
  if (!values.empty()) std::memcpy(t.raw(), values.data(), values.size() * sizeof(int32_t));
  return t;
}

// Where sequences of these lengths begin, one after the other, and end.
inline std::vector<int32_t> indptr_of(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> at{0};
  for (const int32_t n : lengths) at.push_back(at.back() + n);
  return at;
}

// Sequences of so many keys in shuffled pages.
struct ShuffledPages {
  std::vector<int32_t> indptr{0}, order, last, slots;  // `slots`: of the keys, one after the other

  ShuffledPages(Random& random, const std::vector<int32_t>& keys, int32_t block_size) {
    for (const int32_t n : keys) {
      for (int32_t j = 0; j < n; ++j) slots.push_back(indptr.back() * block_size + j);
      indptr.push_back(indptr.back() + (n + block_size - 1) / block_size);
      last.push_back((n - 1) % block_size + 1);
    }
    order.resize(static_cast<size_t>(count()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random.engine());
    for (int32_t& slot : slots)
      slot = order[static_cast<size_t>(slot / block_size)] * block_size + slot % block_size;
  }
  int32_t count() const { return indptr.back(); }
};

// Pages that hold NaN (as int8 with such scales), where nothing is written.
inline KvPages nan_pages(int64_t blocks, int64_t block_size, int64_t heads, int64_t head_dim,
                         DType dtype, KvLayout layout) {
  Shape shape = layout == KvLayout::kNHD ? Shape{blocks, 2, block_size, heads}
                                         : Shape{blocks, 2, heads, block_size};
  KvPages pages;
  pages.layout = layout;
  if (const auto scale = page_scale_type(dtype)) pages.scales = Tensor(shape, *scale);
  shape.push_back(head_dim);
  pages.data = Tensor(shape, dtype);
  for (const Tensor& t : {pages.data, pages.scales})
    if (!t.empty()) std::memset(t.raw(), 0xff, t.bytes());
  return pages;
}

// As random.pick() chooses.
constexpr std::initializer_list<DType> kPageTypes = {DType::kF32, DType::kBF16, DType::kI8};

inline Tensor to_bf16(const Tensor& x) {
  Tensor t(x.shape(), DType::kBF16);
  for (int64_t i = 0; i < x.size(); ++i) t.data<uint16_t>()[i] = float_to_bf16(x.data<float>()[i]);
  return t;
}

inline MatrixView view_of(const Tensor& t) {
  return {t.raw(), t.dtype(), t.dim(0), t.dim(1), t.row_stride()};
}

// |a - b| <= absolute + relative |b| everywhere, for matrices; absolute: of each entry.
inline ::testing::AssertionResult near(const Tensor& a, const Tensor& b, const Tensor& absolute,
                                       double relative) {
  for (int64_t i = 0; i < a.dim(0); ++i)
    for (int64_t j = 0; j < a.dim(1); ++j) {
      const double x = a.row<float>(i)[j], y = b.row<float>(i)[j];
      const double allowed = absolute.row<float>(i)[j] + relative * std::abs(y);
      if (!(std::abs(x - y) <= allowed))
        return ::testing::AssertionFailure()
               << "at [" << i << ", " << j << "]: " << x << ", expected " << y << " +- " << allowed;
    }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult near(const Tensor& a, const Tensor& b, double absolute,
                                       double relative) {
  const Tensor everywhere(b.shape(), DType::kF32);
  std::fill_n(everywhere.data<float>(), everywhere.size(), static_cast<float>(absolute));
  return near(a, b, everywhere, relative);
}

inline ::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape())
    return ::testing::AssertionFailure() << to_string(a.shape()) << " and " << to_string(b.shape());
  for (int64_t i = 0; i < a.dim(0); ++i)
    for (int64_t j = 0; j < a.dim(1); ++j) {
      const float *x = a.row<float>(i) + j, *y = b.row<float>(i) + j;
      if (std::memcmp(x, y, sizeof(float)) != 0)
        return ::testing::AssertionFailure()
               << "at [" << i << ", " << j << "]: " << *x << " and " << *y;
    }
  return ::testing::AssertionSuccess();
}

inline std::vector<CpuIsa> available_isas() { return {cpu_isas().begin(), cpu_isas().end()}; }

// A test that runs at every level of this machine.
class IsaTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override { set_cpu_isa(GetParam()); }
  void TearDown() override { set_cpu_isa(best_cpu_isa()); }
};

inline std::string isa_name(const ::testing::TestParamInfo<CpuIsa>& info) {
  return name_of(info.param);
}

}  // namespace tandem::testing

#define TANDEM_FOR_EACH_ISA(fixture)                                                            \
  INSTANTIATE_TEST_SUITE_P(, fixture, ::testing::ValuesIn(::tandem::testing::available_isas()), \
                           ::tandem::testing::isa_name)
