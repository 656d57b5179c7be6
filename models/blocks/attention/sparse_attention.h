// Encoder attention of blocks (BigBird, Zaheer et al. 2020; HuggingFace's, outside training). The
// tokens of the first and of the last block see everything. Those of another block see it, its
// neighbours, the first and the last block. Instead of random blocks they see the first one some
// times more. A sequence of few blocks is seen as a whole.
#pragma once

#include <cstdint>
#include <span>

#include "models/blocks/attention/attention.h"

namespace tandem {

struct SparseBlocks {
  int block = 0;   // tokens; 0: there are none
  int random = 0;  // times that the first block counts more

  // Whether a sequence of so many tokens is seen as a whole.
  bool whole(int64_t length) const { return length <= int64_t{5 + 2 * random} * block; }
};

// Of a step's sequences, for all layers.
StepTensors::Sparse sparse_of(Context& ctx, std::span<const int32_t> lengths,
                              const SparseBlocks& blocks, const Heads& heads);

class SparseAttention : AttentionLayer {
 public:
  SparseAttention(const Weights& w, const Build& b, int64_t d_model,
                  const AttentionOptions& options, const SparseBlocks& blocks);
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
  ops::PositionBias times_;  // of the side keys: the logarithm of how often one counts
};

}  // namespace tandem
