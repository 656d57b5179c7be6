// Linear layers against the reference, and the bitwise promises.
#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/isa/isa.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::linear_test {
namespace {

using cpu::set_first_cache_bytes;
using testing::near;
using testing::Random;
using testing::same_bits;
using testing::view_of;

class LinearTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LinearTest);

Tensor run(Context& ctx, const PackedWeight& w, const Tensor& x, const Tensor& bias,
           Activation activation) {
  Tensor out({x.dim(0), w.out_features()}, DType::kF32);
  ops::linear(ctx, {&w, x, bias, activation, out});
  return out;
}

Tensor rounded(const Tensor& x) {
  Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j)
      out.row<float>(i)[j] = bf16_to_float(float_to_bf16(x.row<float>(i)[j]));
  return out;
}

const std::initializer_list<int64_t> kOddSizes = {1,  2,  7,  15, 16,  17, 56,
                                                  63, 64, 65, 72, 130, 200};

TEST_P(LinearTest, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const int64_t t = random.integer(1, 40), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    const Tensor w = random.strided(n, k), x = random.strided(t, k);
    const Tensor bias = random.integer(0, 3) ? random.vector(n) : Tensor();
    const auto activation = random.gentle_activation();
    SCOPED_TRACE(std::to_string(t) + " x " + std::to_string(k) + " x " + std::to_string(n));
    const MatrixView view = view_of(w);
    Tensor expected({t, n}, DType::kF32);
    // What a chain rounds off grows with its length: three times the worst of a million results.
    const double bound = 3e-6 * std::sqrt(static_cast<double>(k)) + 1e-6;

    const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
    reference::linear(view, x, bias, activation, expected);
    EXPECT_TRUE(near(run(ctx, packed, x, bias, activation), expected, bound, 1e-5));

    const PackedWeight packed16(ctx, {&view, 1}, DType::kBF16);
    reference::linear(view_of(rounded(w)), rounded(x), bias, activation, expected);
    EXPECT_TRUE(near(run(ctx, packed16, x, bias, activation), expected, bound, 1e-5));
  }
}

// More rows than a pass takes, and more steps than a block. What a chain rounds off grows with its
// length: the bound is ten times what is usual.
TEST_P(LinearTest, MatchesTheReferenceAcrossBlocks) {
  Random random;
  Context ctx(2);
  const int64_t k = 531;
  for (int round = 0; round < 6; ++round) {
    const int64_t t = random.integer(1, 70), n = random.pick<int64_t>({17, 64, 130, 531});
    SCOPED_TRACE(std::to_string(t) + " rows, " + std::to_string(n) + " columns");
    const Tensor w = random.strided(n, k), x = random.strided(t, k), bias = random.vector(n);
    Tensor expected({t, n}, DType::kF32);
    const MatrixView view = view_of(w);
    const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
    reference::linear(view, x, bias, Activation::kNone, expected);
    EXPECT_TRUE(near(run(ctx, packed, x, bias, Activation::kNone), expected, 2e-4, 1e-5));
    const PackedWeight packed16(ctx, {&view, 1}, DType::kBF16);
    reference::linear(view_of(rounded(w)), rounded(x), bias, Activation::kNone, expected);
    EXPECT_TRUE(near(run(ctx, packed16, x, bias, Activation::kNone), expected, 2e-4, 1e-5));
  }
}

TEST_P(LinearTest, StacksPartsOfAnyFloatType) {
  Random random;
  Context ctx(2);
  const int64_t k = 33;
  const Tensor a = random.matrix(50, k), b = testing::to_bf16(random.matrix(70, k));
  std::vector<uint16_t> half(9 * k + 1);
  for (auto& h : half)
    h = static_cast<uint16_t>(random.integer(0x2000, 0x4000) | (random.integer(0, 1) << 15));
  half[0] = 3;  // a subnormal
  std::vector<std::byte> unaligned(half.size() * 2 + 1);
  std::memcpy(unaligned.data() + 1, half.data(), half.size() * 2);
  const MatrixView parts[] = {view_of(a), {unaligned.data() + 1, DType::kF16, 9, k, k}, view_of(b)};
  const PackedWeight packed(ctx, parts, DType::kF32);
  ASSERT_EQ(packed.out_features(), 129);
  ASSERT_EQ(packed.in_features(), k);
  const Tensor x = random.matrix(5, k), out = run(ctx, packed, x, Tensor(), Activation::kNone);
  int64_t column = 0;
  for (const MatrixView& part : parts) {
    Tensor expected({5, part.rows}, DType::kF32);
    reference::linear(part, x, Tensor(), Activation::kNone, expected);
    EXPECT_TRUE(near(out.columns(column, column + part.rows), expected, 1e-5, 1e-5));
    column += part.rows;
  }
}

TEST_P(LinearTest, EmptySidesAreFine) {
  Random random;
  Context ctx(2);
  const Tensor w = random.matrix(5, 3), bias = random.vector(5);
  const MatrixView view = view_of(w), no_columns{nullptr, DType::kF32, 5, 0, 0},
                   no_rows{nullptr, DType::kF32, 0, 3, 3};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    EXPECT_EQ(run(ctx, PackedWeight(ctx, {&view, 1}, dtype), Tensor({0, 3}, DType::kF32), bias,
                  Activation::kNone)
                  .dim(0),
              0);
    run(ctx, PackedWeight(ctx, {&no_rows, 1}, dtype), random.matrix(4, 3), Tensor(),
        Activation::kNone);
    const Tensor y = run(ctx, PackedWeight(ctx, {&no_columns, 1}, dtype),
                         Tensor({70, 0}, DType::kF32), bias, Activation::kNone);
    for (int64_t i = 0; i < 70; ++i)
      EXPECT_EQ(std::memcmp(y.row<float>(i), bias.raw(), 5 * sizeof(float)), 0);
  }
}

// Large outputs are written past the caches, if their rows begin at lines; then too only their own
// columns and rows.
TEST_P(LinearTest, LargeOutputsHaveTheBitsOfSmallOnes) {
  if (GetParam() == CpuIsa::kGeneric) GTEST_SKIP() << "slow";
  Random random;
  Context ctx(3);
  const int64_t t = 300, k = 20, n = 3600;
  const Tensor w = random.matrix(n, k), x = random.matrix(t, k), bias = random.vector(n);
  const MatrixView view = view_of(w);
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    const PackedWeight packed(ctx, {&view, 1}, dtype);
    const Tensor all = Tensor::zeros({t, n + 32}, DType::kF32), out = all.columns(16, 16 + n);
    ops::linear(ctx, {&packed, x, bias, Activation::kRelu, out});
    for (int64_t i = 0; i < t; i += 7) {
      EXPECT_TRUE(same_bits(out.rows(i, i + 1),
                            run(ctx, packed, x.rows(i, i + 1), bias, Activation::kRelu)));
      EXPECT_EQ(all.row<float>(i)[15], 0.0f);
      EXPECT_EQ(all.row<float>(i)[16 + n], 0.0f);
    }
  }
}

// How K is cut, and where prefetches go, is by the machine's caches.
TEST_P(LinearTest, CachesChangeNoBit) {
  Random random;
  Context ctx(2);
  const int64_t t = 23, k = 1200, n = 130;
  const Tensor w = random.matrix(n, k), x = random.matrix(t, k), bias = random.vector(n);
  const MatrixView view = view_of(w);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    const PackedWeight packed(ctx, {&view, 1}, dtype);
    set_first_cache_bytes(32 << 10);
    const Tensor small = run(ctx, packed, x, bias, Activation::kRelu);
    set_first_cache_bytes(48 << 10);
    const Tensor large = run(ctx, packed, x, bias, Activation::kRelu);
    set_first_cache_bytes(-1);
    EXPECT_TRUE(same_bits(small, large)) << name_of(dtype);
    EXPECT_TRUE(
        same_bits(small.rows(4, 5), run(ctx, packed, x.rows(4, 5), bias, Activation::kRelu)));
  }
}

// Writes its own columns and rows only.
TEST_P(LinearTest, LeavesTheRestOfAStridedOutput) {
  Random random;
  Context ctx(2);
  for (int64_t n : {5, 64, 70}) {
    const Tensor w = random.matrix(n, 20), x = random.matrix(9, 20);
    const MatrixView view = view_of(w);
    const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
    const Tensor all = random.matrix(9, n + 8);
    std::vector<float> before(all.data<float>(), all.data<float>() + all.size());
    const Tensor out = all.columns(3, 3 + n);
    ops::linear(ctx, {&packed, x, Tensor(), Activation::kNone, out});
    EXPECT_TRUE(same_bits(out, run(ctx, packed, x, Tensor(), Activation::kNone)));
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t j : {int64_t{0}, int64_t{2}, n + 3, n + 7})
        EXPECT_EQ(all.row<float>(i)[j], before[static_cast<size_t>(i * (n + 8) + j)]);
  }
}

// A row's bits depend neither on the other rows, nor on their number, nor on the threads.
TEST_P(LinearTest, RowsAreBatchInvariant) {
  Random random;
  Context one(1), three(3);
  const bool slow = GetParam() == CpuIsa::kGeneric;
  for (int round = 0; round < 12; ++round) {
    const int64_t k = random.pick<int64_t>({1, 56, 193, 385, 1031}),
                  n = random.pick<int64_t>({16, 64, 100, 200, 450});
    const int64_t t = slow ? random.integer(1, 40) : random.pick<int64_t>({13, 64, 150, 401});
    const Tensor w = random.matrix(n, k), x = random.strided(t, k), bias = random.vector(n);
    const MatrixView view = view_of(w);
    const auto activation = random.gentle_activation();
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
      const PackedWeight packed(one, {&view, 1}, dtype);
      const Tensor all = run(three, packed, x, bias, activation);
      EXPECT_TRUE(same_bits(run(one, packed, x, bias, activation), all));
      for (int trial = 0; trial < 10; ++trial) {
        const int64_t begin = random.integer(0, t - 1);
        const int64_t end = std::min(t, begin + random.pick<int64_t>({1, 2, 3, 5, 6, 7, 11, 40}));
        EXPECT_TRUE(same_bits(run(one, packed, x.rows(begin, end), bias, activation),
                              all.rows(begin, end)));
      }
    }
  }
}

// The same for every number of rows around the tiles' edges, in the types that have tiles.
TEST_P(LinearTest, EveryNumberOfRowsGivesTheSameBits) {
  Random random;
  Context ctx(2);
  const int64_t most = GetParam() == CpuIsa::kGeneric ? 20 : 70;
  for (const int64_t k : {101, 576}) {
    const Tensor w = random.matrix(70, k), x = random.strided(most, k), bias = random.vector(70);
    const MatrixView view = view_of(w);
    for (const DType dtype : {DType::kBF16, DType::kI8, DType::kI4}) {
      const PackedWeight packed(ctx, {&view, 1}, dtype);
      const Tensor all = run(ctx, packed, x, bias, Activation::kRelu);
      for (int64_t t = 1; t < most; ++t) {
        const int64_t begin = random.integer(0, most - t);
        EXPECT_TRUE(same_bits(run(ctx, packed, x.rows(begin, begin + t), bias, Activation::kRelu),
                              all.rows(begin, begin + t)))
            << t << " rows from " << begin << ", k = " << k;
      }
    }
  }
}

// A norm that the layer makes has the bits of one apart, as have the products behind it, also where
// it is written over what it reads.
TEST_P(LinearTest, NormsInFrontHaveTheBitsOfNormsApart) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 20; ++round) {
    const int64_t t = random.integer(1, 40), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    const bool adds = random.integer(0, 2) != 0, sums = adds && random.integer(0, 1) != 0;
    const bool rms = random.integer(0, 1) != 0;
    const Tensor w = random.matrix(n, k), bias = random.vector(n), weight = random.vector(k);
    const Tensor rows = random.matrix(t, k), residual = adds ? random.matrix(t, k) : Tensor();
    const MatrixView view = view_of(w);
    ops::LayerNormArgs norm{rows,   residual,
                            weight, rms ? Tensor() : random.vector(k),
                            1e-5f,  Tensor({t, k}, DType::kF32)};
    if (sums) norm.sum = Tensor({t, k}, DType::kF32);
    norm.rms = rms;
    ops::layer_norm(ctx, norm);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
      const PackedWeight packed(ctx, {&view, 1}, dtype);
      ops::LayerNormArgs in_front = norm;
      in_front.x = Tensor({t, k}, DType::kF32);
      std::memcpy(in_front.x.raw(), rows.raw(), rows.bytes());
      in_front.out = sums || !adds ? Tensor({t, k}, DType::kF32) : in_front.x;
      if (sums) in_front.sum = in_front.x;
      const Tensor out({t, n}, DType::kF32);
      ops::linear(ctx, {&packed, in_front.out, bias, Activation::kGelu, out, &in_front});
      EXPECT_TRUE(same_bits(in_front.out, norm.out));
      if (sums) {
        EXPECT_TRUE(same_bits(in_front.sum, norm.sum));
      }
      EXPECT_TRUE(same_bits(out, run(ctx, packed, norm.out, bias, Activation::kGelu)));
    }
  }
}

// An output feature's bits do not depend on where it stands in the (stacked) weight.
TEST_P(LinearTest, ColumnsAreShardInvariant) {
  Random random;
  Context ctx(2);
  const Tensor w = random.matrix(150, 90), x = random.matrix(7, 90), bias = random.vector(150);
  const MatrixView view = view_of(w);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    const Tensor all = run(ctx, PackedWeight(ctx, {&view, 1}, dtype), x, bias, Activation::kGelu);
    for (auto [begin, end] : {std::pair{0, 50}, {13, 29}, {50, 150}, {149, 150}}) {
      const MatrixView part = view_of(w.rows(begin, end));
      EXPECT_TRUE(same_bits(run(ctx, PackedWeight(ctx, {&part, 1}, dtype), x, bias.rows(begin, end),
                                Activation::kGelu),
                            all.columns(begin, end)));
    }
  }
}

TEST(Linear, LevelsGiveTheSameBitsInF32) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const int64_t t = random.integer(1, 30), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    const Tensor w = random.matrix(n, k), x = random.matrix(t, k), bias = random.vector(n);
    const MatrixView view = view_of(w);
    const auto activation = random.gentle_activation();
    Tensor first;
    for (CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      const Tensor y = run(ctx, PackedWeight(ctx, {&view, 1}, DType::kF32), x, bias, activation);
      if (first.empty()) first = y;
      EXPECT_TRUE(same_bits(y, first)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

}  // namespace
}  // namespace tandem::linear_test
