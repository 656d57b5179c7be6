// Encoder attention whose cost is linear in the length (Longformer, Beltagy et al. 2020): a window
// around each token, and a few tokens with global attention, which all tokens of their sequence see
// and which see all of them, by projections of their own.
#pragma once

#include "models/blocks/attention.h"

namespace tandem {

// Names of the projections that global tokens, and what they see, go through.
struct GlobalAttentionOptions {
  const char* q = "query_global";
  const char* k = "key_global";
  const char* v = "value_global";
};

// Of `options` the window is used: that of tokens without global attention. Which tokens are global
// is said by in.global_rows; without any the own projections are not computed.
class GlobalAttention : AttentionLayer {
 public:
  GlobalAttention(const Weights& w, const Build& b, int64_t d_model,
                  const AttentionOptions& options, const GlobalAttentionOptions& global);
  Tensor forward(NormedRows& x, const StepTensors& in) const { return forward(x.rows(), in); }

  // What a layer needs at once for a token, in widths of its heads: beside its input and output the
  // keys and values of global tokens, and, where all tokens are global, their states and queries.
  static constexpr int kScratchWidths = 7;

 private:
  Tensor forward(const Tensor& x, const StepTensors& in) const;
  Tensor local(const Tensor& x, const StepTensors& in) const;
  void see_everything(const Tensor& x, const StepTensors& in, const Tensor& out) const;

  QKVParallelLinear qkv_;
  CrossAttentionQKVParallelLinear global_;  // queries of few rows, keys and values of all
};

}  // namespace tandem
