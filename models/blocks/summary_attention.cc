#include "models/blocks/summary_attention.h"

#include <cstdint>
#include <vector>

namespace tandem {

StepTensors::Summaries summaries_of(Context& ctx, std::span<const int32_t> lengths, int block) {
  std::vector<int32_t> blocks, ranges;
  int32_t first = 0;
  for (const int32_t length : lengths) {
    const auto before = static_cast<int32_t>(blocks.size() / 2);
    const int32_t count = length / block;
    for (int32_t i = 0; i < count; ++i) {
      const int32_t end = i + 1 < count ? (i + 1) * block : length;
      blocks.insert(blocks.end(), {first + i * block, first + end});
    }
    ranges.insert(ranges.end(), {before, before + count});
    first += length;
  }
  return {step_ranges(ctx, blocks), step_ranges(ctx, ranges)};
}

SummaryAttention::SummaryAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o,
                                   const SummaryAttentionOptions& summary)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads),
      summary_norm_(w / summary.norm, b, d_model, o.eps, NormKind::kRms),
      summary_(summary) {}

Tensor SummaryAttention::forward(NormedRows& x, const StepTensors& in) const {
  const Tensor rows = x.rows();
  const Tensor q = qkv_.forward_q(x);
  const auto [k, v] = qkv_.forward_kv(rows);
  ops::SideKeys side{.ranges = in.summaries.ranges, .bias = summary_.bias, .unit = summary_.block};
  if (const Tensor& blocks = in.summaries.blocks; !blocks.empty()) {
    const Tensor sums = build_.ctx.make({blocks.dim(0), rows.dim(1)});
    ops::sum_ranges(build_.ctx, {rows, blocks, sums});
    const auto of_summaries = qkv_.forward_kv(summary_norm_.forward(sums));
    side.k = of_summaries.k;
    side.v = of_summaries.v;
  }
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {.q = q,
                                     .k = k,
                                     .v = v,
                                     .indptr = in.encoder_start_loc,
                                     .num_heads = heads_.count(),
                                     .head_dim = heads_.head_dim,
                                     .scale = options_.scale,
                                     .out = out,
                                     .plan = in.encoder_plan(),
                                     .bias = options_.position_bias,
                                     .num_kv_heads = heads_.kv_count(),
                                     .soft_cap = options_.soft_cap,
                                     .window = options_.window,
                                     .side = side});
  return out_.forward(out);
}

}  // namespace tandem
