// Which experts take a token.
#include "models/blocks/experts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/kernels_test_util.h"

namespace tandem {
namespace {

using testing::Random;

Tensor matrix_of(const std::vector<std::vector<float>>& rows) {
  const Tensor out({std::ssize(rows), std::ssize(rows[0])}, DType::kF32);
  for (size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(rows[i], out.row<float>(static_cast<int64_t>(i)));
  return out;
}

TEST(Route, TheLargestOrTheFirstOfEqualOnes) {
  const Tensor logits = matrix_of({{0, 2, 1}, {3, 3, 0}, {-1, -5, -1}});
  const Routing one = route(logits, {.count = 3}, {});
  EXPECT_EQ(one.ends, (std::vector<int32_t>{2, 3, 3}));
  EXPECT_EQ(one.rows, (std::vector<int32_t>{1, 2, 0}));
  EXPECT_EQ(one.places, (std::vector<int32_t>{2, 0, 1}));
  const Routing two = route(logits, {.count = 3, .chosen = 2, .scale = 0.5f}, {});
  EXPECT_EQ(two.ends, (std::vector<int32_t>{2, 4, 6}));
  EXPECT_FLOAT_EQ(two.factors[2], 0.25f);
  for (size_t i = 0; i < 6; i += 2) EXPECT_NEAR(two.factors[i] + two.factors[i + 1], 0.5, 1e-6);
}

TEST(Route, ExpertsTakeSoManyTokensOfARange) {
  const Tensor logits = matrix_of(std::vector<std::vector<float>>(8, {1, 0}));
  const std::vector<int32_t> bounded{1, 4, 4, 7};
  const Routing got = route(logits, {.count = 2, .capacity = 2}, bounded);
  EXPECT_EQ(got.places, (std::vector<int32_t>{0, 1, 2, -1, 3, 4, -1, 5}));
  EXPECT_EQ(got.factors[3], 0.0f);
}

// Each place names its token's row, and every row is named once.
TEST(Route, PlacesAndRowsBelongTogether) {
  Random random;
  for (int round = 0; round < 20; ++round) {
    const int64_t tokens = random.integer(1, 60), count = random.integer(2, 7);
    const ExpertsOptions options{.count = static_cast<int>(count),
                                 .chosen = random.pick({1, 2}),
                                 .capacity = random.pick({0, 1, 5})};
    const std::vector<int32_t> bounded{0, static_cast<int32_t>(tokens)};
    const Routing got = route(random.matrix(tokens, count, 3.0f), options, bounded);
    const auto chosen = static_cast<size_t>(options.chosen);
    ASSERT_EQ(got.places.size(), static_cast<size_t>(tokens) * chosen);
    std::vector<bool> named(got.rows.size());
    for (size_t slot = 0; slot < got.places.size(); ++slot) {
      if (got.places[slot] < 0) continue;
      const auto place = static_cast<size_t>(got.places[slot]);
      EXPECT_EQ(got.rows[place], static_cast<int32_t>(slot / chosen));
      EXPECT_FALSE(named[place]);
      named[place] = true;
      EXPECT_GT(got.factors[slot], 0.0f);
    }
    EXPECT_EQ(std::ranges::count(named, false), 0);
    ASSERT_EQ(std::ssize(got.ends), count);
    EXPECT_EQ(got.ends.back(), std::ssize(got.rows));
    for (size_t i = 0, begin = 0; i < got.ends.size(); begin = static_cast<size_t>(got.ends[i++])) {
      const auto taken = got.ends[i] - static_cast<int32_t>(begin);
      if (options.capacity > 0) {
        EXPECT_LE(taken, options.capacity);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
