// The encoder alone: last hidden states (ragged batches under a token budget), and one vector of
// those of a sequence.
#pragma once

#include <span>
#include <vector>

#include "models/model.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct EncoderIds {
  std::vector<int32_t> ids;               // at least one
  std::vector<int32_t> global_positions;  // with global attention, ascending
};

// Last hidden states [tokens, d_model] of each sequence, in order, f32 in host memory. Sequences
// share batches of at most max_batched_tokens tokens (a longer one runs alone).
std::vector<Tensor> encode_sequences(Context& ctx, Model& model,
                                     std::span<const EncoderIds> sequences, int max_batched_tokens);

// A tensor of activations as f32 in host memory; on the CPU the tensor itself.
Tensor host_floats(Context& ctx, const Tensor& t);

// Mean over the rows: [d_model].
std::vector<float> mean_pool(const Tensor& states);
// states: [tokens > 0, d_model]. A vector of zeros is not normalised.
proto::Embedding pool(const Tensor& states, const proto::Pooling& pooling);

// The same of ranges of rows of `states` [tokens, d_model], on their device. There rows are added
// in f32, and only sums come back.
struct PooledRange {
  int32_t first, end;  // not empty
  const proto::Pooling* pooling;
};
std::vector<proto::Embedding> pool_ranges(Context& ctx, const Tensor& states,
                                          std::span<const PooledRange> ranges);

}  // namespace tandem
