// linear_best of the CUDA device: the same tokens and logits as linear and select, and the CPU's,
// with a soft cap and without, over ties, NaNs and infinities, one launch after the other: bit for
// bit up to 8 rows, and above where sums are exact; a row's bits whatever its batch.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/linear/linear_best.h"
#include "tests/kernels/best_problem.h"
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/support/variable.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::Random;
using testing::repeat_rows;
using testing::rounded;
using testing::some_bias;
using testing::some_cap;
using testing::some_rows;
using testing::to_device;

struct Said {
  Tensor log_sums, ids, values, best;
  Said(int64_t rows, const std::function<Tensor(const Shape&, DType)>& make)
      : log_sums(make({rows}, DType::kF32)),
        ids(make({rows, 1}, DType::kI32)),
        values(make({rows, 1}, DType::kF32)),
        best(make({rows + 2}, DType::kI32)) {}
  Said here(Context& ctx) const {
    Said out = *this;
    for (Tensor* t : {&out.log_sums, &out.ids, &out.values, &out.best}) *t = ctx.on_host(*t);
    return out;
  }
};

void expect_same_best(const Said& got, const Said& want, bool bits) {
  for (int64_t i = 0; i < want.ids.dim(0); ++i) {
    EXPECT_EQ(got.ids.data<int32_t>()[i], want.ids.data<int32_t>()[i]) << "row " << i;
    EXPECT_EQ(got.best.data<int32_t>()[i], got.ids.data<int32_t>()[i]);
    const float value = got.values.data<float>()[i], other = want.values.data<float>()[i];
    // (A NaN's sign is the adder's: tensor cores have another than the rest of a GPU.)
    const bool alike = std::memcmp(&value, &other, sizeof(value)) == 0;
    EXPECT_TRUE(!bits || alike || (std::isnan(value) && std::isnan(other)))
        << value << ", not " << other;
    const float sum = got.log_sums.data<float>()[i], expected = want.log_sums.data<float>()[i];
    if (std::isfinite(expected)) {
      EXPECT_NEAR(sum, expected, 1e-5 * (1 + std::abs(expected)));
    } else {
      EXPECT_TRUE(sum == expected || (std::isnan(sum) && std::isnan(expected))) << sum;
    }
  }
}

struct BestCase {
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool bias, ties;
  bool exact = false;  // small integers, whose sums are the same in any order
  float cap = 0.0f;
};

Tensor matrix_of(Random& random, const BestCase& c, int64_t rows, DType dtype) {
  const Tensor m = rounded(random.matrix(rows, c.in), dtype);
  if (c.exact)
    for (int64_t i = 0; i < m.size(); ++i)
      m.data<float>()[i] = static_cast<float>(random.integer(-2, 2));
  return m;
}

// linear_best takes up to `rows` rows, if it can. (An emulated device has multiprocessors.)
Context context(DType dtype, const char* rows, const char* multiprocessors = "132") {
  const testing::Variable best("TANDEM_HEAD_BEST_ROWS", rows),
      count("TANDEM_EMULATOR_MULTIPROCESSORS", multiprocessors);
  return testing::cuda_context(dtype);
}

void check_best(Random& random, Context& ctx, const BestCase& c) {
  SCOPED_TRACE(::testing::Message() << name_of(ctx.activations()) << ", " << c.rows << " x " << c.in
                                    << " x " << c.out << ", cap " << c.cap);
  const DType dtype = ctx.activations();
  const int64_t all_rows = c.rows + 3;
  const Tensor x = matrix_of(random, c, all_rows, dtype), w = matrix_of(random, c, c.out, dtype);
  if (c.ties) repeat_rows(random, w);
  const Tensor bias = c.bias ? some_bias(random, c.out) : Tensor();
  const std::vector<int32_t> rows = some_rows(random, c.rows, all_rows);
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, c.step);
  const auto on_device = [&](const Shape& shape, DType type) {
    return ctx.backend().allocate(shape, type);
  };
  const Tensor which = to_device(ctx, indices(rows)),
               shift = c.bias ? to_device(ctx, bias) : Tensor();
  const Said got(c.rows, on_device), want(c.rows, on_device);
  for (int turn = 0; turn < 2; ++turn)  // the ticket is left as it was
    ops::linear_best(ctx, {&packed, there.tensor(), which, shift, got.log_sums, got.ids, got.values,
                           got.best, c.cap});
  const Tensor chosen = on_device({c.rows, c.in}, dtype),
               logits = on_device({c.rows, c.out}, DType::kF32);
  ops::gather_rows(ctx, {there.tensor(), which, chosen});
  ops::linear(ctx, {&packed, chosen, shift, Activation::kNone, logits});
  if (c.cap > 0) ops::soft_cap(ctx, {logits, c.cap});
  const Tensor zeros = to_device(ctx, indices(std::vector<int32_t>(c.rows + 1, 0)));
  const Tensor nothing = on_device({0, 3}, DType::kI32), none = on_device({0}, DType::kF32);
  ops::select(ctx, {logits, zeros.rows(0, c.rows), zeros, nothing, 1, want.log_sums, none, want.ids,
                    want.values, want.best});
  expect_same_best(got.here(ctx), want.here(ctx), true);
  if (c.cap > 0) return;  // the CPU's tanh has other bits

  Context cpu(1);
  const Said reference(c.rows, [](const Shape& shape, DType type) { return Tensor(shape, type); });
  const PackedWeight there_too(cpu, {&view, 1}, DType::kF32);
  ops::linear_best(cpu, {&there_too, x, indices(rows), bias, reference.log_sums, reference.ids,
                         reference.values, reference.best});
  // (Sums that differ by their order: equal logits of the one may differ in the other.)
  if (c.exact || (dtype == DType::kF32 && c.in <= 64 && !c.ties))
    expect_same_best(got.here(ctx), reference, c.exact);
}

TEST(CudaLinearBest, IsLinearAndSelect) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int64_t rows = 1; rows <= 8; ++rows)
      for (const int64_t out : {int64_t{1}, random.integer(2, 40), random.integer(41, 700)})
        check_best(random, ctx,
                   {rows, 8 * random.integer(1, 20), out, 8, random.integer(0, 2) > 0,
                    random.integer(0, 1) == 0, false, some_cap(random)});
    for (int round = 0; round < 6; ++round)  // that are no multiples of anything
      check_best(random, ctx,
                 {random.integer(1, 8), random.integer(1, 99), random.integer(1, 300), 1,
                  random.integer(0, 2) > 0, false, false, some_cap(random)});
  }
}

// More features than the largest launch has room for at once.
TEST(CudaLinearBest, LargeVocabularies) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  check_best(random, ctx, {1, 8, 20011, 8, true, true});
  check_best(random, ctx, {5, 8, 9001, 8, false, true});
  check_best(random, ctx, {3, 8, 9001, 8, true, true, false, 0.2f});
}

// Rows, features and elements that are no multiples of what a block takes.
TEST(CudaLinearBest, ManyRows) {
  Random random;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Context ctx = context(dtype, "128");
    for (const int64_t rows : {9, 16, 17, 32, 33, 64, 65, 96, 128})
      for (const int64_t out : {int64_t{1}, random.pick<int64_t>({63, 64, 65}),
                                random.pick<int64_t>({127, 128, 129}), random.integer(130, 500)})
        check_best(random, ctx,
                   {rows, 8 * random.integer(1, 30), out, 8, random.integer(0, 4) > 0,
                    random.integer(0, 1) == 0, /*exact=*/true, some_cap(random)});
  }
}

// Rows of so many elements that blocks have room for 32 and 16 of them.
TEST(CudaLinearBest, ManyRowsOfManyElements) {
  Random random;
  Context ctx = context(DType::kBF16, "128");
  check_best(random, ctx, {40, 2048, 70, 8, true, true, true});
  check_best(random, ctx, {64, 2056, 70, 8, false, false, true});
  check_best(random, ctx, {30, 4096, 70, 8, true, true, true, 30.0f});
}

// More tiles than blocks, which then have several of one step or more.
TEST(CudaLinearBest, ManyRowsOfLargeVocabularies) {
#if defined(TANDEM_CUDA_EMULATED)
  constexpr int64_t kPart = 8;  // of the device, which has the same part of the features
#else
  constexpr int64_t kPart = 1;
#endif
  Random random;
  Context ctx = context(DType::kBF16, "128", "16");
  check_best(random, ctx, {9, 16, 50265 / kPart, 8, true, true, true});
  check_best(random, ctx, {40, 8, 40001 / kPart, 8, false, false, true});
  check_best(random, ctx, {40, 8, 40001 / kPart, 8, false, true, true, 0.2f});
  check_best(random, ctx, {128, 72, 20011 / kPart, 8, true, false, true});
}

// The value is a logit that rounding allows; none is larger by more. (Caps reduce differences.)
void check_rounding(Random& random, DType dtype, int64_t rows, float cap) {
  constexpr int64_t kFeatures = 300;
  Context ctx = context(dtype, "128");
  const int64_t in = 8 * random.integer(1, 100);
  SCOPED_TRACE(::testing::Message()
               << name_of(dtype) << ", " << rows << " x " << in << ", " << cap);
  const Tensor x = rounded(random.matrix(rows, in), dtype),
               w = rounded(random.matrix(kFeatures, in), dtype), bias = random.vector(kFeatures);
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, 8);
  std::vector<int32_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const Said said(rows, [&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
  ops::linear_best(ctx, {&packed,
                         there.tensor(),
                         to_device(ctx, indices(all)),
                         to_device(ctx, bias),
                         said.log_sums,
                         said.ids,
                         said.values,
                         {},
                         cap});
  const Said got = said.here(ctx);
  const Tensor want({rows, kFeatures}, DType::kF32);
  reference::linear(view, x, bias, Activation::kNone, want);
  if (cap > 0) reference::soft_cap({want, cap});
  const Tensor allowed = testing::allowed_of_product(w, x, bias, 0, 0);
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t id = got.ids.data<int32_t>()[i];
    const float value = got.values.data<float>()[i];
    const double of_cap = 1e-6 * double{cap};
    EXPECT_NEAR(value, want.row<float>(i)[id], allowed.row<float>(i)[id] + of_cap);
    double sum = 0, most = 0;
    for (int64_t j = 0; j < kFeatures; ++j) {
      EXPECT_LE(want.row<float>(i)[j] - allowed.row<float>(i)[j] - of_cap, value);
      sum += std::exp(double{want.row<float>(i)[j]});
      most = std::max<double>(most, allowed.row<float>(i)[j]);
    }
    EXPECT_NEAR(got.log_sums.data<float>()[i], std::log(sum),
                most + of_cap + 1e-5 * (1 + std::abs(std::log(sum))));
  }
}

TEST(CudaLinearBest, WithinRounding) {
  Random random;
  for (const float cap : {0.0f, 30.0f, 1.0f}) {
    for (const DType dtype : {DType::kF16, DType::kBF16})
      check_rounding(random, dtype, random.integer(9, 128), cap);
    for (const DType dtype : kActivations) check_rounding(random, dtype, random.integer(1, 8), cap);
  }
}

// Bits of a row's log-sum, value and id.
using RowBits = std::array<uint32_t, 3>;

std::vector<RowBits> bits_of(Context& ctx, const PackedWeight& weight, const Tensor& x,
                             const Tensor& bias, const std::vector<int32_t>& rows) {
  const Said said(std::ssize(rows),
                  [&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
  ops::linear_best(
      ctx, {&weight, x, to_device(ctx, indices(rows)), bias, said.log_sums, said.ids, said.values});
  const Said got = said.here(ctx);
  std::vector<RowBits> out(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t part = 0; part < 3; ++part) {
      const Tensor& of = part == 0 ? got.log_sums : part == 1 ? got.values : got.ids;
      std::memcpy(&out[i][part], static_cast<const uint32_t*>(of.raw()) + i, sizeof(uint32_t));
    }
  return out;
}

// Of 9 to 128 rows each has the same bits, whatever the others are, on every device.
TEST(CudaLinearBest, RowsDoNotDependOnOthers) {
  Random random;
  const Tensor x = rounded(random.matrix(128, 264), DType::kBF16),
               w = rounded(random.matrix(700, 264), DType::kBF16), bias = random.vector(700);
  const MatrixView view = testing::view_of(w);
  std::vector<RowBits> all;
  for (const char* device : {"9.0", "8.0", "8.9"}) {  // with less and less shared memory
    const testing::Variable capability("TANDEM_EMULATOR_CAPABILITY", device);
    Context ctx = context(DType::kBF16, "128");
    const PackedWeight packed(ctx, {&view, 1}, DType::kBF16);
    const DeviceMatrix there(ctx, random, x, DType::kBF16, 8);
    const Tensor shift = to_device(ctx, bias);
    if (all.empty()) {
      std::vector<int32_t> each(128);
      std::iota(each.begin(), each.end(), 0);
      all = bits_of(ctx, packed, there.tensor(), shift, each);
    }
    for (const int64_t rows : {9, 16, 17, 33, 64, 65, 100, 128}) {
      if (rows > ctx.backend().most_best_rows(packed)) break;
      const std::vector<int32_t> some = some_rows(random, rows, 128);
      const std::vector<RowBits> got = bits_of(ctx, packed, there.tensor(), shift, some);
      for (size_t i = 0; i < some.size(); ++i)
        EXPECT_EQ(got[i], all[static_cast<size_t>(some[i])])
            << device << ", " << rows << " rows, row " << i;
    }
  }
}

// Parts that lie beside each other in a row, as ranks gather them.
TEST(CudaJoinBest, MatchesTheReference) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF32);
  for (int64_t parts = 1; parts <= 8; ++parts)
    for (const int64_t rows : {1, 7, 128, 129}) {
      SCOPED_TRACE(::testing::Message() << parts << " parts of " << rows << " rows");
      const testing::PartsProblem p = testing::some_parts(random, parts, rows);
      const Tensor all({parts, 3 * rows}, DType::kI32);
      for (int64_t part = 0; part < parts; ++part)
        for (int64_t i = 0; i < 3; ++i) {
          const Tensor& of = i == 0 ? p.ids : i == 1 ? p.values : p.log_sums;
          std::copy_n(of.as(DType::kI32).row<int32_t>(part), rows,
                      all.row<int32_t>(part) + i * rows);
        }
      const Tensor there = to_device(ctx, all);
      const Said got(rows, [&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
      ops::join_best(ctx, {there.columns(0, rows), there.columns(rows, 2 * rows).as(DType::kF32),
                           there.columns(2 * rows, 3 * rows).as(DType::kF32), got.log_sums, got.ids,
                           got.values, got.best});
      const Said want(rows, [](const Shape& s, DType t) { return Tensor(s, t); });
      reference::join_best(
          {p.ids, p.values, p.log_sums, want.log_sums, want.ids, want.values, want.best});
      expect_same_best(got.here(ctx), want, true);
    }
}

// Ids begin where the part does.
TEST(CudaLinearBest, PartsOfAVocabulary) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = context(dtype, "128");
    const int64_t rows = dtype == DType::kF32 ? 5 : 20;
    const Tensor x = rounded(random.matrix(rows, 16), dtype),
                 w = rounded(random.matrix(90, 16), dtype);
    const MatrixView view = testing::view_of(w);
    const PackedWeight packed(ctx, {&view, 1}, dtype);
    const DeviceMatrix there(ctx, random, x, dtype, 8);
    const Tensor which = to_device(ctx, indices(some_rows(random, rows, rows)));
    const auto said_from = [&](int32_t first_id) {
      const Said said(rows, [&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
      ops::linear_best(ctx, {&packed,
                             there.tensor(),
                             which,
                             {},
                             said.log_sums,
                             said.ids,
                             said.values,
                             said.best,
                             0.0f,
                             first_id});
      return said.here(ctx);
    };
    const Said part = said_from(1000), whole = said_from(0);
    for (int64_t i = 0; i < rows; ++i) whole.ids.data<int32_t>()[i] += 1000;
    expect_same_best(part, whole, true);
  }
}

TEST(CudaLinearBest, WhatTilesAreFor) {
  const auto rows = [](int64_t k, int capability = 90, size_t shared = 227 << 10) {
    return cuda::best_tile_rows(DType::kBF16, k, capability, shared);
  };
  EXPECT_EQ(rows(1024), 128);
  EXPECT_EQ(rows(2048), 64);
  EXPECT_EQ(rows(4096), 32);
  EXPECT_EQ(rows(8192), 0);
  EXPECT_EQ(rows(1020), 0);
  EXPECT_EQ(rows(0), 0);
  EXPECT_EQ(rows(1024, 80, 163 << 10), 64);
  EXPECT_EQ(rows(1024, 89, 99 << 10), 32);
  EXPECT_EQ(rows(1024, 75, 64 << 10), 0);
  EXPECT_EQ(cuda::best_tile_rows(DType::kF32, 1024, 90, 227 << 10), 0);
}

TEST(CudaLinearBest, HowManyRows) {
  Random random;
  const auto most = [&](DType dtype, const char* said, int64_t in = 16) {
    Context ctx = said == nullptr ? testing::cuda_context(dtype) : context(dtype, said);
    const Tensor w = random.matrix(10, in);
    const MatrixView view = testing::view_of(w);
    return ctx.backend().most_best_rows(PackedWeight(ctx, {&view, 1}, dtype));
  };
  EXPECT_EQ(most(DType::kBF16, nullptr), 128);
  EXPECT_EQ(most(DType::kF16, "128"), 128);
  EXPECT_EQ(most(DType::kF16, "20"), 20);
  EXPECT_EQ(most(DType::kF16, "5"), 5);
  EXPECT_EQ(most(DType::kBF16, "0"), 0);
  EXPECT_EQ(most(DType::kBF16, "128", 12), 8);  // no multiple of 8 elements
  EXPECT_EQ(most(DType::kF32, nullptr), 8);
  EXPECT_EQ(most(DType::kF32, "128"), 8);
  for (const char* wrong : {"", "-1", "129", "8x", " 8", "99999999999"})
    EXPECT_THROW(most(DType::kF16, wrong), InputError) << wrong;
  Context ctx = testing::cuda_context(DType::kBF16);
  const Tensor w = random.matrix(10, 16);
  const MatrixView view = testing::view_of(w);
  EXPECT_EQ(ctx.backend().most_best_rows(
                PackedWeight(ctx, {&view, 1}, DType::kBF16, Quantization::kInt8)),
            0);
}

}  // namespace
}  // namespace tandem
