// T5's relative positions: a learned value for each head and bucket of distances.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"
#include "parallel/layers/shard.h"

namespace tandem {

struct RelativeBuckets {
  bool bidirectional = true;  // encoders; decoders have buckets for keys at or before the query
  int num_buckets = 32;
  int max_distance = 128;  // so far and farther is one bucket
};

// The bucket of each distance (key less query) from -max_distance to max_distance, HuggingFace's
// T5Attention._relative_position_bucket in its own arithmetic (float32). What lies farther has the
// bucket of the end. Throws InputError naming the field for sizes that leave no buckets.
std::vector<int32_t> relative_position_buckets(const RelativeBuckets& buckets);

// The bias of some heads, on the host, from the embedding [num_buckets, all heads] f32.
ops::PositionBias relative_position_bias(const RelativeBuckets& buckets, const Tensor& embedding,
                                         Range heads);

}  // namespace tandem
