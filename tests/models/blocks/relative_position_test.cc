// T5's buckets as HuggingFace computes them, and the attention that they give.
#include "models/blocks/attention/relative_position.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem {
namespace {

using testing::indices;
using testing::near;
using testing::Random;

// tests/data/relative_position_buckets.json: scripts/goldens/make_relative_position_buckets.py.
class Buckets {
 public:
  explicit Buckets(const nlohmann::json& entry)
      : sizes{entry.at("bidirectional"), entry.at("num_buckets"), entry.at("max_distance")},
        buckets_(entry.at("buckets")) {}
  int at(int64_t distance) const {
    return buckets_.at(static_cast<size_t>(distance + 2 * sizes.max_distance));
  }
  RelativeBuckets sizes;

 private:
  std::vector<int> buckets_;
};

std::vector<Buckets> all_buckets() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/data/relative_position_buckets.json");
  const nlohmann::json entries = nlohmann::json::parse(file);
  return {entries.begin(), entries.end()};
}

TEST(RelativePosition, HuggingFacesBuckets) {
  const std::vector<Buckets> all = all_buckets();
  ASSERT_EQ(all.size(), 10u);
  for (const Buckets& expected : all) {
    const RelativeBuckets& b = expected.sizes;
    const std::vector<int32_t> got = relative_position_buckets(b);
    ASSERT_EQ(std::ssize(got), 2 * b.max_distance + 1);
    for (int d = -2 * b.max_distance; d <= 2 * b.max_distance; ++d) {
      const int known = std::clamp(d, -b.max_distance, b.max_distance);
      ASSERT_EQ(got[static_cast<size_t>(known + b.max_distance)], expected.at(d))
          << "distance " << d << ", " << b.num_buckets << " buckets to " << b.max_distance
          << (b.bidirectional ? ", bidirectional" : "");
    }
  }
}

TEST(RelativePosition, SizesThatLeaveNoBuckets) {
  for (const RelativeBuckets& b : {RelativeBuckets{true, 3, 128},
                                   {false, 1, 128},
                                   {true, 0, 9},
                                   {true, -4, 9},
                                   {false, 1 << 30, 1 << 30}})
    EXPECT_THROW(relative_position_buckets(b), InputError) << b.num_buckets;
  for (const RelativeBuckets& b :
       {RelativeBuckets{true, 32, 8}, {false, 32, 16}, {true, 32, 0}, {true, 32, 1 << 30}})
    EXPECT_THROW(relative_position_buckets(b), InputError) << b.max_distance;
}

// softmax(q . k + embedding[bucket(key - query)]) v, in doubles.
void naive(const Buckets& buckets, const Tensor& embedding, int64_t embedding_column,
           const Tensor& q, const Tensor& k, const Tensor& v, int64_t column, int head_dim,
           bool causal, const Tensor& out) {
  const int64_t queries = q.dim(0), keys = k.dim(0);
  for (int64_t i = 0; i < queries; ++i) {
    const int64_t position = keys - queries + i, seen = causal ? position + 1 : keys;
    std::vector<double> weights;
    double sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      // (Beyond the table: as at its end.)
      const int64_t most = 2 * buckets.sizes.max_distance;
      const int bucket = buckets.at(std::clamp(j - position, -most, most));
      double score = embedding.row<float>(bucket)[embedding_column];
      for (int d = 0; d < head_dim; ++d)
        score += double{q.row<float>(i)[column + d]} * double{k.row<float>(j)[column + d]};
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (int d = 0; d < head_dim; ++d) {
      double y = 0;
      for (int64_t j = 0; j < seen; ++j)
        y += weights[static_cast<size_t>(j)] / sum * double{v.row<float>(j)[column + d]};
      out.row<float>(i)[column + d] = static_cast<float>(y);
    }
  }
}

// Some heads of a T5 layer, scores not scaled, over more positions than buckets tell apart.
TEST(RelativePosition, AttentionOfT5) {
  Random random;
  Context ctx(2);
  constexpr int kHeadDim = 16;
  for (const Buckets& buckets : all_buckets()) {
    const RelativeBuckets& b = buckets.sizes;
    if (b.max_distance > 200) continue;
    const Tensor embedding = random.matrix(b.num_buckets, 5);
    const Range heads{1, 4};
    const ops::PositionBias bias = relative_position_bias(b, embedding, heads);
    const int64_t keys = 2 * b.max_distance + random.integer(1, 40), width = 3 * kHeadDim;
    const int64_t queries = b.bidirectional ? keys : random.integer(1, keys);
    const Tensor q = random.matrix(queries, width, 0.3f), k = random.matrix(keys, width, 0.3f),
                 v = random.matrix(keys, width);
    const Tensor want(q.shape(), DType::kF32), got(q.shape(), DType::kF32);
    for (int64_t h = 0; h < heads.size(); ++h)
      naive(buckets, embedding, heads.begin + h, q, k, v, h * kHeadDim, kHeadDim, !b.bidirectional,
            want);
    const auto last = static_cast<int32_t>(keys);
    if (b.bidirectional) {
      ops::ragged_attention(ctx,
                            {q, k, v, indices({0, last}), 3, kHeadDim, 1.0f, got, nullptr, bias});
    } else {
      const KvPages pages{Tensor({1, 2, keys, 3, kHeadDim}, DType::kF32), KvLayout::kNHD};
      std::copy_n(k.data<float>(), k.size(), pages.data.data<float>());
      std::copy_n(v.data<float>(), v.size(), pages.data.data<float>() + k.size());
      ops::paged_attention(
          ctx, {q, pages, indices({0, static_cast<int32_t>(queries)}), indices({0, 1}),
                indices({0}), indices({last}), 3, kHeadDim, 1.0f, true, got, nullptr, bias});
    }
    EXPECT_TRUE(near(got, want, 3e-6, 1e-5))
        << b.num_buckets << " buckets to " << b.max_distance << ", " << queries << " queries";
  }
}

}  // namespace
}  // namespace tandem
