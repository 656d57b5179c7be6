// Encoder attention with a cost linear in the length (Longformer, Beltagy et al. 2020). Each token
// sees a window around it and a few global tokens. Global tokens see all tokens of their sequence,
// by their own projections.
#pragma once

#include "models/blocks/attention/attention.h"

namespace tandem {

// Names of the projections of global tokens and of the tokens that they see.
struct GlobalAttentionOptions {
  const char* q = "query_global";
  const char* k = "key_global";
  const char* v = "value_global";
};

// `options.window` is the window of tokens without global attention. in.global_rows lists the
// global tokens; without any, their projections are not computed.
class GlobalAttention : AttentionLayer {
 public:
  GlobalAttention(const Weights& w, const Build& b, int64_t d_model,
                  const AttentionOptions& options, const GlobalAttentionOptions& global);
  Tensor forward(NormedRows& x, const StepTensors& in) const { return forward(x.rows(), in); }

  // A layer's scratch memory for a token, in widths of its heads: its input and output, the keys
  // and values of global tokens, and, if all tokens are global, their states and queries.
  static constexpr int kScratchWidths = 7;

 private:
  Tensor forward(const Tensor& x, const StepTensors& in) const;
  Tensor local(const Tensor& x, const StepTensors& in) const;
  void see_everything(const Tensor& x, const StepTensors& in, const Tensor& out) const;

  QKVParallelLinear qkv_;
  CrossAttentionQKVParallelLinear global_;  // queries of few rows, keys and values of all
};

}  // namespace tandem
