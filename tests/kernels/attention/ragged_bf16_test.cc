// Encoder attention in bf16: within what rounding explains of the reference, the bits of a query
// whatever is beside it, and the f32 path where the op says so.
#include <algorithm>
#include <limits>

#include "kernels/cpu/isa/isa.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::ragged_bf16_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;

class RaggedBf16Test : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(RaggedBf16Test);

bool computes_bf16() { return cpu::isa_kernels().ragged_attend_bf16 != nullptr; }

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
  args.bf16 = true;
  return args;
}

Tensor rounded(const Tensor& x, float scale = 1.0f) {
  const Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < x.dim(1); ++j)
      out.row<float>(i)[j] = bf16_to_float(float_to_bf16(x.row<float>(i)[j] * scale));
  return out;
}

// The reference over inputs rounded as the op rounds them. What is left is the rounding of the
// exponentials, 2^-9 of each, whose sum with the values' magnitudes as weights bounds the error.
::testing::AssertionResult matches_the_reference(Context& ctx, ops::RaggedAttentionArgs args) {
  const Tensor got = args.out;
  ops::ragged_attention(ctx, args);
  ops::RaggedAttentionArgs exact = args;
  if (computes_bf16()) {
    exact.q = rounded(args.q, args.scale);
    exact.scale = 1.0f;
    exact.k = rounded(args.k);
    exact.v = rounded(args.v);
  }
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
  // In f32 what large scores leave of the exponentials' digits.
  const float share = computes_bf16() ? 1.0f / 256 : 1e-3f;
  for (int64_t i = 0; i < allowed.size(); ++i)
    allowed.data<float>()[i] = allowed.data<float>()[i] * share + 1e-5f;
  return near(got, expected, allowed, 1e-5);
}

TEST_P(RaggedBf16Test, MatchesTheReference) {
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
TEST_P(RaggedBf16Test, LateAndDistantScores) {
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
TEST_P(RaggedBf16Test, IsBatchInvariant) {
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
TEST_P(RaggedBf16Test, APlaceInATileChangesNothing) {
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
TEST_P(RaggedBf16Test, WindowsAndOtherKeysStayInF32) {
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
    args.bf16 = false;
    args.out = Tensor({rounded.dim(0), rounded.dim(1)}, DType::kF32);
    ops::ragged_attention(ctx, args);
    EXPECT_TRUE(same_bits(args.out, rounded));
  }
}

TEST_P(RaggedBf16Test, NanStaysInItsSequence) {
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
}  // namespace tandem::ragged_bf16_test
