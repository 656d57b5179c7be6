#include "models/blocks/attention/summary_attention.h"

#include <cstdint>
#include <utility>
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

namespace {

// Summaries are their sequences'.
AdapterRows rows_of_summaries(const AdapterSet* set, std::span<const int32_t> lengths, int block) {
  if (set == nullptr || set->rows().empty()) return {};
  std::vector<uint64_t> out;
  int64_t first = 0;
  for (const int32_t length : lengths) {
    out.insert(out.end(), static_cast<size_t>(length / block), set->rows().of_row(first));
    first += length;
  }
  return AdapterRows(std::move(out));
}

}  // namespace

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
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  args.side = {.k = {},
               .v = {},
               .ranges = in.summaries.ranges,
               .bias = summary_.bias,
               .unit = summary_.block};
  if (const Tensor& blocks = in.summaries.blocks; !blocks.empty()) {
    const Tensor sums = build_.ctx.make({blocks.dim(0), rows.dim(1)});
    ops::sum_ranges(build_.ctx, {rows, blocks, sums});
    const AdapterSet::Scope scope(
        build_.adapters,
        rows_of_summaries(build_.adapters, in.host->encoder_seq_lens, summary_.block));
    const auto of_summaries = qkv_.forward_kv(summary_norm_.forward(sums));
    args.side.k = of_summaries.k;
    args.side.v = of_summaries.v;
  }
  ops::ragged_attention(build_.ctx, args);
  return out_.forward(args.out);
}

}  // namespace tandem
