// Encoder attention with a cost linear in the length (Pegasus-X, Phang et al. 2022). A token sees
// the tokens of its block and some vectors that each sequence carries through all layers beside its
// tokens. These see one another and all tokens.
#pragma once

#include <cstdint>
#include <span>

#include "models/blocks/attention/attention.h"

namespace tandem {

// What a sequence carries along: rows behind the tokens of all sequences, `count` of each.
struct CarriedVectors {
  int count = 0;  // 0: none
  int block = 0;  // tokens of a block
};

struct BlockAttentionOptions {
  CarriedVectors carried;
  bool staggered = false;  // the first block of a sequence has half as many tokens
  const char* norm = "";   // of carried vectors before attention, in the layer's scope
};

// The blocks and carried vectors of a step's sequences, for all layers.
StepTensors::Blocks blocks_of(Context& ctx, std::span<const int32_t> lengths,
                              const CarriedVectors& carried, const Heads& heads);

// The vectors before the first layer: a table that all sequences share.
class CarriedEmbeddings {
 public:
  CarriedEmbeddings(const HostTensor& table, const Build& b);
  // [T, d] → [T + sequences * vectors, d]: the vectors of each sequence behind all tokens.
  Tensor behind(const Tensor& tokens, int64_t sequences) const;

 private:
  Build build_;
  HostTensor keep_alive_;
  Tensor table_;
};

// Of pre-norm layers.
class BlockAttention : AttentionLayer {
 public:
  BlockAttention(const Weights& w, const Build& b, int64_t d_model, const AttentionOptions& options,
                 const BlockAttentionOptions& block, Norm carried_norm);
  // [tokens + carried vectors, d_model]; the latter are normed here, by their own norm.
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
  BlockAttentionOptions block_;
  Norm carried_norm_;
};

}  // namespace tandem
