// Rotary positions: rotary_angles, rotary, and the write to the cache that turns keys on the way.
#include <algorithm>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::rotary_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

Tensor copy_of(const Tensor& x) {
  const Tensor copy({x.dim(0), x.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i) std::copy_n(x.row<float>(i), x.dim(1), copy.row<float>(i));
  return copy;
}

TEST(RotaryAngles, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 20; ++round) {
    const int64_t t = random.integer(1, 40), pairs = random.pick<int64_t>({1, 3, 8, 32, 128});
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < t; ++i)
      positions.push_back(static_cast<int32_t>(random.integer(0, random.pick({9, 500, 200000}))));
    const Tensor frequencies({pairs}, DType::kF32);
    for (int64_t i = 0; i < pairs; ++i)
      frequencies.data<float>()[i] = static_cast<float>(
          std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs)));
    ops::RotaryAnglesArgs args{indices(positions), frequencies, random.strided(t, 2 * pairs)};
    const Tensor got = args.out;
    ops::rotary_angles(ctx, args);
    args.out = Tensor({t, 2 * pairs}, DType::kF32);
    reference::rotary_angles(args);
    EXPECT_TRUE(near(got, args.out, 2e-7, 0));
    EXPECT_EQ(got.row<float>(0)[0], std::cos(static_cast<float>(positions[0])));
  }
}

struct Problem {
  int heads, head_dim;
  int64_t tokens;
  ops::Rotary rotary;
  explicit Problem(Random& random)
      : heads(static_cast<int>(random.integer(1, 5))),
        head_dim(random.pick({2, 8, 14, 32, 64, 80, 256})),
        tokens(random.integer(1, 40)) {
    const int64_t turned = random.integer(0, 1) ? head_dim : 2 * random.integer(1, head_dim / 2);
    rotary = {random.strided(tokens, turned), random.integer(0, 1) == 1};
  }
  int64_t width() const { return int64_t{heads} * head_dim; }
};

TEST(Rotary, MatchesTheReferenceAndATokenHasItsOwnBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 40; ++round) {
    const Problem p(random);
    const Tensor x = random.strided(p.tokens, p.width()), before = copy_of(x), want = copy_of(x);
    ops::rotary(three, {x, p.heads, p.head_dim, p.rotary});
    reference::rotary({want, p.heads, p.head_dim, p.rotary});
    EXPECT_TRUE(near(x, want, 1e-6, 1e-6)) << p.head_dim << " of " << p.rotary.angles.dim(1);
    const int64_t t = random.integer(0, p.tokens - 1);
    const ops::Rotary its{p.rotary.angles.rows(t, t + 1), p.rotary.interleaved};
    ops::rotary(one, {before.rows(t, t + 1), p.heads, p.head_dim, its});
    EXPECT_TRUE(same_bits(before.rows(t, t + 1), x.rows(t, t + 1)));
  }
}

// A quarter of a turn: (a, b) becomes (-b, a), the rest stays.
TEST(Rotary, TurnsThePairsThatItNames) {
  Context ctx(1);
  for (const bool interleaved : {false, true}) {
    Tensor x({1, 6}, DType::kF32), angles({1, 4}, DType::kF32);
    std::iota(x.data<float>(), x.data<float>() + 6, 1.0f);
    const float quarter[] = {0, 0, 1, 1};
    std::copy_n(quarter, 4, angles.data<float>());
    ops::rotary(ctx, {x, 1, 6, {angles, interleaved}});
    const std::vector<float> got(x.data<float>(), x.data<float>() + 6);
    EXPECT_EQ(got, interleaved ? (std::vector<float>{-2, 1, -4, 3, 5, 6})
                               : (std::vector<float>{-3, -4, 1, 2, 5, 6}));
  }
}

// The pages have what rotary() and a write of its keys give, and `k` is as it was.
TEST(Rotary, TheWriteToTheCacheTurnsKeys) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    const Problem p(random);
    const int block_size = random.pick({1, 5, 16});
    const int64_t blocks = (p.tokens + block_size - 1) / block_size;
    const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const auto pages = [&](DType type) {
      KvPages out = testing::nan_pages(blocks, block_size, p.heads, p.head_dim, type, layout);
      std::memset(out.data.raw(), 0, out.data.bytes());
      return out;
    };
    std::vector<int32_t> slots(static_cast<size_t>(p.tokens));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random.engine());
    const DType dtype = random.pick(testing::kPageTypes);
    const Tensor k = random.strided(p.tokens, p.width()), before = copy_of(k);
    ops::WriteKvArgs args{k, random.strided(p.tokens, p.width()), indices(slots), pages(dtype),
                          p.rotary};
    ops::write_kv(ctx, args);
    EXPECT_TRUE(same_bits(k, before));
    const Tensor got = args.pages.data, scales = args.pages.scales;
    args.pages = pages(dtype);
    ops::rotary(ctx, {before, p.heads, p.head_dim, p.rotary});
    args.k = before;
    args.rotary = {};
    ops::write_kv(ctx, args);
    EXPECT_EQ(std::memcmp(got.raw(), args.pages.data.raw(), got.bytes()), 0);
    if (!scales.empty()) {
      EXPECT_EQ(std::memcmp(scales.raw(), args.pages.scales.raw(), scales.bytes()), 0);
    }
    if (dtype != DType::kF32) continue;
    args.k = k;
    args.rotary = p.rotary;
    reference::write_kv(args);
    const int64_t rows = got.size() / p.head_dim;
    EXPECT_TRUE(near(got.reshape({rows, p.head_dim}), args.pages.data.reshape({rows, p.head_dim}),
                     1e-6, 1e-6));
  }
}

TEST(RotaryDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Random random;
  Context ctx(1);
  const Tensor x = random.matrix(3, 16);
  EXPECT_DEATH(ops::rotary(ctx, {x, 2, 8, {random.matrix(3, 7)}}), "check failed");
  EXPECT_DEATH(ops::rotary(ctx, {x, 2, 8, {random.matrix(3, 10)}}), "check failed");
  EXPECT_DEATH(ops::rotary(ctx, {x, 2, 8, {random.matrix(2, 8)}}), "check failed");
}

}  // namespace
}  // namespace tandem::rotary_test
