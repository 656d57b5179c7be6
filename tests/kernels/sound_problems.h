// Random arguments of the ops of kernels/sound_ops.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/sound_ops.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

// Clips of these lengths.
inline ops::DepthwiseConvArgs random_depthwise(Random& random, const std::vector<int32_t>& rows) {
  ops::DepthwiseConvArgs out{};
  const bool planes = random.integer(0, 1) == 1;
  const auto side = [&](int64_t low, int64_t high) {
    return static_cast<int>(random.integer(low, high));
  };
  out.height = side(1, 5);
  out.width = planes ? side(1, 4) : 1;
  out.stride = side(1, 3);
  out.x_columns = planes ? side(out.width, 12) : 1;
  out.row_padding = side(0, out.height - 1);
  out.column_padding = side(0, out.width - 1);
  out.out_columns = (out.x_columns + 2 * out.column_padding - out.width) / out.stride + 1;
  const int64_t features = random.pick<int64_t>({1, 3, 16, 33});
  std::vector<int32_t> behind;
  for (const int32_t n : rows)
    behind.push_back(std::max((n + 2 * out.row_padding - out.height) / out.stride + 1, 0));
  const std::vector<int32_t> starts = indptr_of(rows), out_starts = indptr_of(behind);
  const bool single = random.integer(0, 1) == 1;
  out.x = random.strided(starts.back(), out.x_columns * (single ? 1 : features));
  out.start_loc = indices(starts);
  out.out_starts = indices(out_starts);
  out.weight = random.matrix(int64_t{out.height} * out.width, features);
  out.bias = random.vector(features);
  out.activation = random.pick({Activation::kNone, Activation::kRelu, Activation::kSilu});
  out.out = random.strided(out_starts.back(), out.out_columns * features);
  return out;
}

inline ops::RelativeAttentionArgs random_relative(Random& random,
                                                  const std::vector<int32_t>& lengths) {
  ops::RelativeAttentionArgs out{};
  out.num_heads = static_cast<int>(random.integer(1, 3));
  out.head_dim = random.pick({1, 8, 12, 33, 80});
  out.scale = 1.0f / std::sqrt(static_cast<float>(out.head_dim));
  const std::vector<int32_t> starts = indptr_of(lengths);
  const int64_t size = int64_t{out.num_heads} * out.head_dim;
  const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (Tensor* t : {&out.q, &out.k, &out.v, &out.out}) *t = random.strided(starts.back(), size);
  out.indptr = indices(starts);
  out.zero = longest - 1 + static_cast<int32_t>(random.integer(0, 2));
  out.distances = random.strided(out.zero + longest + random.integer(0, 2), size);
  out.q_bias = random.vector(size);
  out.d_bias = random.vector(size);
  return out;
}

}  // namespace tandem::testing
