// Encoder attention with operands of 16 bits: within what rounding explains of the reference, the
// bits of a query whatever is beside it, and the f32 path where the op says so.
#include <algorithm>
#include <limits>

#include "kernels/cpu/isa/isa.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::ragged_16_bits_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;

class Ragged16BitsTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(Ragged16BitsTest);

enum class Operands { kF32, kBf16, kI16 };
Operands operands() {
  if (cpu::isa_kernels().ragged_16.attend == nullptr) return Operands::kF32;
  return cpu_isa() == CpuIsa::kAvx2 ? Operands::kI16 : Operands::kBf16;
}

ops::RaggedAttentionArgs random_args(Random& random, const std::vector<int32_t>& lengths,
                                     int head_dim, float spread = 1.0f) {
  const int kv_heads = static_cast<int>(random.integer(1, 2)),
            heads = kv_heads * random.pick({1, 2, 3});
  const int64_t t = indptr_of(lengths).back(), d = int64_t{kv_heads} * head_dim;
  ops::RaggedAttentionArgs args{};
  args.q = random.strided(t, int64_t{heads} * head_dim, spread);
  args.k = random.strided(t, d, spread);
  args.v = random.strided(t, d);
  args.indptr = indices(indptr_of(lengths));
  args.num_heads = heads;
  args.num_kv_heads = kv_heads;
  args.head_dim = head_dim;
  args.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  args.out = random.strided(t, int64_t{heads} * head_dim);
  args.soft_cap = random.pick({0.0f, 0.0f, 1.5f, 50.0f});
  if (random.integer(0, 2) == 0)
    args.bias = {random.matrix(heads, random.pick({1, 7, 33, 257}), 2.0f),
                 static_cast<int32_t>(random.integer(-5, 140))};
  args.in_16_bits = true;
  return args;
}

Tensor in_bf16(const Tensor& x, float scale = 1.0f) {
  const Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j)
      out.row<float>(i)[j] = bf16_to_float(float_to_bf16(x.row<float>(i)[j] * scale));
  return out;
}

// The elements [i0, i1) x [j0, j1) of x as integers of one scale, the largest `top`.
void round_together(const Tensor& x, int64_t i0, int64_t i1, int64_t j0, int64_t j1, float top,
                    Tensor& out) {
  float largest = 0;
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t j = j0; j < j1; ++j) largest = std::max(largest, std::abs(x.row<float>(i)[j]));
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t j = j0; j < j1; ++j)
      out.row<float>(i)[j] =
          largest == 0 ? 0 : std::nearbyint(x.row<float>(i)[j] * (top / largest)) * (largest / top);
}

// Each head of a row has a scale. Products of head_dim elements fit int32.
Tensor rows_in_i16(const Tensor& x, int head_dim) {
  Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  const double top = std::floor(std::sqrt(2147483647.0 / ((head_dim + 15) / 16 * 16)));
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); j += head_dim)
      round_together(x, i, i + 1, j, j + head_dim, static_cast<float>(std::min(top, 32767.0)), out);
  return out;
}

// Each column of 128 rows of a sequence has a scale.
Tensor values_in_i16(const Tensor& x, const Tensor& indptr) {
  Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  for (int64_t s = 0; s + 1 < indptr.dim(0); ++s) {
    const int64_t end = indptr.data<int32_t>()[s + 1];
    for (int64_t i = indptr.data<int32_t>()[s]; i < end; i += 128)
      for (int64_t j = 0; j < x.dim(1); ++j)
        round_together(x, i, std::min(i + 128, end), j, j + 1, 1023, out);
  }
  return out;
}

void round_inputs(ops::RaggedAttentionArgs& args) {
  if (operands() == Operands::kBf16) {
    args.q = in_bf16(args.q, args.scale);
    args.scale = 1.0f;
    args.k = in_bf16(args.k);
    args.v = in_bf16(args.v);
  }
  if (operands() == Operands::kI16) {
    args.q = rows_in_i16(args.q, args.head_dim);
    args.k = rows_in_i16(args.k, args.head_dim);
    args.v = values_in_i16(args.v, args.indptr);
  }
}

// What rounding an exponential to int16 may change of an output: half a step of each key's, where
// their sum is at least the largest.
float rounding_of_exponentials(const ops::RaggedAttentionArgs& args) {
  if (operands() != Operands::kI16) return 0;
  int32_t keys = 0;
  for (int64_t s = 0; s + 1 < args.indptr.dim(0); ++s)
    keys = std::max(keys, args.indptr.data<int32_t>()[s + 1] - args.indptr.data<int32_t>()[s]);
  float largest = 0;
  for (int64_t i = 0; i < args.v.dim(0); ++i)
    for (int64_t j = 0; j < args.v.dim(1); ++j)
      largest = std::max(largest, std::abs(args.v.row<float>(i)[j]));
  return static_cast<float>(keys) * largest / 2 / 16383;
}

// The reference over inputs rounded as the op rounds them. What is left is the rounding of the
// exponentials (bf16: 2^-9 of each), whose sum with the values' magnitudes as weights bounds the
// error.
::testing::AssertionResult matches_the_reference(Context& ctx, ops::RaggedAttentionArgs args) {
  const Tensor got = args.out;
  ops::ragged_attention(ctx, args);
  ops::RaggedAttentionArgs exact = args;
  round_inputs(exact);
  exact.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
  reference::ragged_attention(exact);
  const Tensor expected = exact.out, magnitudes({args.v.dim(0), args.v.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < magnitudes.dim(0); ++i)
    for (int64_t j = 0; j < magnitudes.dim(1); ++j)
      magnitudes.row<float>(i)[j] = std::abs(args.v.row<float>(i)[j]);
  exact.v = magnitudes;
  exact.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
  reference::ragged_attention(exact);
  const Tensor allowed = exact.out;
  // In f32 and int16 what large scores leave of the exponentials' digits.
  const float share = operands() == Operands::kBf16 ? 1.0f / 256 : 1e-3f;
  const float any = 1e-5f + rounding_of_exponentials(args);
  for (int64_t i = 0; i < allowed.size(); ++i)
    allowed.data<float>()[i] = allowed.data<float>()[i] * share + any;
  return near(got, expected, allowed, 1e-5);
}

TEST_P(Ragged16BitsTest, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 8; ++round) {
    std::vector<int32_t> lengths;
    for (int i = 0; i < 3; ++i)
      lengths.push_back(random.pick({0, 1, 15, 16, 17, 31, 33, 64, 65, 127, 129, 130, 257, 300}));
    const auto args = random_args(random, lengths, random.pick({1, 8, 14, 32, 64, 80, 96, 130}));
    EXPECT_TRUE(matches_the_reference(ctx, args))
        << lengths[0] << " " << lengths[1] << " " << lengths[2] << ", heads of " << args.head_dim;
  }
}

// Larger scores come late, so that the sums so far must follow; and scores so far apart that
// exponentials vanish.
TEST_P(Ragged16BitsTest, LateAndDistantScores) {
  Random random;
  Context ctx(2);
  for (const float spread : {4.0f, 30.0f}) {
    auto args = random_args(random, {300}, 64, spread);
    args.bias = {};
    args.soft_cap = 0;
    for (int64_t i = 0; i < 300; ++i)
      for (int64_t d = 0; d < args.k.dim(1); ++d)
        args.k.row<float>(i)[d] *= static_cast<float>(i) / 300;
    EXPECT_TRUE(matches_the_reference(ctx, args)) << spread;
  }
}

// A sequence alone gives the bits that it has in a batch, for any number of threads.
TEST_P(Ragged16BitsTest, IsBatchInvariant) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 8; ++round) {
    std::vector<int32_t> lengths;
    for (int i = 0; i < 4; ++i) lengths.push_back(static_cast<int32_t>(random.integer(1, 290)));
    auto args = random_args(random, lengths, random.pick({14, 64, 80}));
    ops::ragged_attention(three, args);
    const std::vector<int32_t> at = indptr_of(lengths);
    for (size_t s = 0; s < lengths.size(); ++s) {
      ops::RaggedAttentionArgs alone = args;
      alone.q = args.q.rows(at[s], at[s + 1]);
      alone.k = args.k.rows(at[s], at[s + 1]);
      alone.v = args.v.rows(at[s], at[s + 1]);
      alone.indptr = indices({0, lengths[s]});
      alone.out = Tensor({lengths[s], args.q.dim(1)}, DType::kF32);
      ops::ragged_attention(one, alone);
      EXPECT_TRUE(same_bits(alone.out, args.out.rows(at[s], at[s + 1])));
    }
  }
}

// Equal queries have equal bits, wherever in a tile they stand.
TEST_P(Ragged16BitsTest, APlaceInATileChangesNothing) {
  Random random;
  Context ctx(1);
  auto args = random_args(random, {77}, 64);
  args.bias = {};
  for (int64_t i = 1; i < 77; ++i)
    std::copy_n(args.q.row<float>(0), args.q.dim(1), args.q.row<float>(i));
  ops::ragged_attention(ctx, args);
  for (int64_t i = 1; i < 77; ++i)
    EXPECT_TRUE(same_bits(args.out.rows(i, i + 1), args.out.rows(0, 1))) << i;
}

// Windows and keys of their own are computed in f32, whatever is allowed.
TEST_P(Ragged16BitsTest, WindowsAndOtherKeysStayInF32) {
  Random random;
  Context ctx(2);
  for (const bool window : {false, true}) {
    auto args = random_args(random, {150, 40}, 64);
    args.bias = {};
    if (window)
      args.window = {20, 20};
    else
      args.kv_ranges = indices({0, 150, 150, 190}).reshape({2, 2});
    ops::ragged_attention(ctx, args);
    const Tensor rounded = args.out;
    args.in_16_bits = false;
    args.out = Tensor({rounded.dim(0), rounded.dim(1)}, DType::kF32);
    ops::ragged_attention(ctx, args);
    EXPECT_TRUE(same_bits(args.out, rounded));
  }
}

TEST_P(Ragged16BitsTest, NanStaysInItsSequence) {
  Random random;
  Context ctx(2);
  auto args = random_args(random, {40, 40}, 64);
  args.soft_cap = 0;
  for (const Tensor& t : {args.k, args.v}) {
    const auto before = std::vector<float>(t.row<float>(50), t.row<float>(50) + t.dim(1));
    std::fill_n(t.row<float>(50), t.dim(1), std::numeric_limits<float>::quiet_NaN());
    ops::ragged_attention(ctx, args);
    EXPECT_FALSE(std::isnan(args.out.row<float>(39)[0]));
    EXPECT_TRUE(std::isnan(args.out.row<float>(40)[0]));
    std::copy(before.begin(), before.end(), t.row<float>(50));
  }
}

}  // namespace
}  // namespace tandem::ragged_16_bits_test
