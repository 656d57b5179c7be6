// T5's relative positions: a learned value for each head and bucket of distances.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "parallel/layers/layers.h"
#include "parallel/shard.h"

namespace tandem {

struct RelativeBuckets {
  bool bidirectional = true;  // encoders; decoders have buckets for keys at or before the query
  int num_buckets = 32;
  int max_distance = 128;  // so far and farther is one bucket
};

// The bucket of each distance (key less query) from -max_distance to max_distance: HuggingFace's
// T5Attention._relative_position_bucket in its own arithmetic (float32). Farther distances have the
// bucket of the end. Throws InputError naming the field for sizes that leave no buckets.
std::vector<int32_t> relative_position_buckets(const RelativeBuckets& buckets);

// The bias of some heads, on the host, from the embedding [num_buckets, all heads] f32.
ops::PositionBias relative_position_bias(const RelativeBuckets& buckets, const Tensor& embedding,
                                         Range heads);

// The biases of a side's layers, resident, from the tables `table` of the numbered scopes in
// `layers`. Each layer has its own, or all have the first one's. Throws InputError naming a tensor.
std::vector<ops::PositionBias> relative_position_biases(const Weights& layers,
                                                        std::string_view table, const Build& b,
                                                        int num_layers, bool of_each, int heads,
                                                        const RelativeBuckets& buckets);

}  // namespace tandem
