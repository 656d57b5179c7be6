// The bias by distance that T5's attention adds to its scores.
#include "models/blocks/attention/relative_position.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr int kMostDistance = 1 << 16;  // the tables stay small

// Half of the buckets hold one distance each, the other half ever more of them.
int32_t bucket_of(int32_t distance, int num_buckets, int max_distance) {
  const int exact = num_buckets / 2;
  if (distance < exact) return distance;
  const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact));
  const auto whole = static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const float step = ratio / whole * static_cast<float>(num_buckets - exact);
  return std::min(exact + static_cast<int32_t>(step), num_buckets - 1);
}

}  // namespace

std::vector<int32_t> relative_position_buckets(const RelativeBuckets& b) {
  const int one_side = b.bidirectional ? b.num_buckets / 2 : b.num_buckets;
  if (one_side < 2 || one_side > kMostDistance)
    throw invalid_model("relative_attention_num_buckets",
                        std::to_string(b.num_buckets) + " buckets cannot be");
  if (b.max_distance <= one_side / 2 || b.max_distance > kMostDistance)
    throw invalid_model("relative_attention_max_distance",
                        std::to_string(b.max_distance) + " is not above " +
                            std::to_string(one_side / 2) + ", the distances of a bucket each");
  std::vector<int32_t> buckets;
  for (int32_t distance = -b.max_distance; distance <= b.max_distance; ++distance) {
    const int32_t size = b.bidirectional ? std::abs(distance) : std::max(0, -distance);
    const int32_t after = b.bidirectional && distance > 0 ? one_side : 0;
    buckets.push_back(after + bucket_of(size, one_side, b.max_distance));
  }
  return buckets;
}

ops::PositionBias relative_position_bias(const RelativeBuckets& b, const Tensor& embedding,
                                         Range heads) {
  TANDEM_CHECK_EQ(embedding.rank(), 2);
  TANDEM_CHECK_EQ(embedding.dim(0), int64_t{b.num_buckets});
  TANDEM_CHECK_LE(heads.end, embedding.dim(1));
  std::vector<int32_t> buckets = relative_position_buckets(b);
  // A decoder sees no key behind its query.
  if (!b.bidirectional) buckets.resize(static_cast<size_t>(b.max_distance) + 1);
  const Tensor values({heads.size(), std::ssize(buckets)}, DType::kF32);
  for (int64_t head = 0; head < heads.size(); ++head)
    for (size_t i = 0; i < buckets.size(); ++i)
      values.row<float>(head)[i] = embedding.row<float>(buckets[i])[heads.begin + head];
  return {values, b.max_distance};
}

std::vector<ops::PositionBias> relative_position_biases(const Weights& layers,
                                                        std::string_view table, const Build& b,
                                                        int num_layers, bool of_each, int heads,
                                                        const RelativeBuckets& buckets) {
  const Range local = shard_range(heads, b.comm.rank(), b.comm.size());
  const Shape shape{buckets.num_buckets, heads};
  std::vector<ops::PositionBias> out;
  for (int i = 0; i < num_layers; ++i) {
    if (i > 0 && !of_each) {
      out.push_back(out.front());
      continue;
    }
    const Tensor values = to_float((layers / i / table).get("weight", shape)).reshape(shape);
    out.push_back(relative_position_bias(buckets, values, local));
    out.back().values = b.ctx.resident(out.back().values);
  }
  return out;
}

}  // namespace tandem
