// Encoder attention over a window and summaries of the whole input (LongT5's transient global
// attention, Guo et al. 2022). A summary is the sum of a block of tokens, normed; its keys and
// values come from the same projections.
#pragma once

#include <cstdint>
#include <span>

#include "models/blocks/attention/attention.h"

namespace tandem {

struct SummaryAttentionOptions {
  int block = 16;               // tokens that a summary stands for
  const char* norm = "";        // of summaries, in the layer's scope; RMS
  ops::PositionBias bias = {};  // by blocks from the query's to the summary's; of this rank's heads
};

// Of each encoder sequence the whole blocks; tokens behind the last belong to it. A sequence
// shorter than a block has no summary. Lists of a step, for all layers (StepTensors::summaries).
StepTensors::Summaries summaries_of(Context& ctx, std::span<const int32_t> lengths, int block);

// `options.window` is the window of tokens.
class SummaryAttention : AttentionLayer {
 public:
  SummaryAttention(const Weights& w, const Build& b, int64_t d_model,
                   const AttentionOptions& options, const SummaryAttentionOptions& summary);
  Tensor forward(NormedRows& x, const StepTensors& in) const;

  // Scratch memory for a summary, in widths of its heads: its sum, norm, keys and values.
  static constexpr int kScratchWidths = 4;

 private:
  CrossAttentionQKVParallelLinear qkv_;
  Norm summary_norm_;
  SummaryAttentionOptions summary_;
};

}  // namespace tandem
