#include "models/blocks/attention/block_attention.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// Blocks of tokens: the queries of one see one another.
OwnSequences blocks_of_tokens(Context& ctx, std::span<const int32_t> lengths,
                              const CarriedVectors& carried, int first_block, const Heads& heads) {
  std::vector<int32_t> starts{0}, ranges;
  std::vector<AttentionSequence> sequences;
  int32_t side = 0;
  for (const int32_t length : lengths) {
    for (int32_t at = 0, size = first_block; at < length; at += size, size = carried.block) {
      const int32_t count = std::min(size, length - at), row = starts.back();
      sequences.push_back({row, count, count, row, false});
      starts.push_back(row + count);
      ranges.insert(ranges.end(), {side, side + carried.count});
    }
    side += carried.count;
  }
  return {step_list(ctx, starts), step_ranges(ctx, ranges),
          plan_own(ctx, sequences, heads.count(), heads.head_dim)};
}

// The carried vectors as queries of all tokens.
OwnSequences carried_queries(Context& ctx, std::span<const int32_t> lengths, int32_t carried,
                             const Heads& heads) {
  std::vector<int32_t> starts{0}, ranges;
  std::vector<AttentionSequence> sequences;
  int32_t row = 0;
  for (const int32_t length : lengths) {
    const int32_t first = starts.back();
    sequences.push_back({first, carried, length, row, false});
    starts.push_back(first + carried);
    ranges.insert(ranges.end(), {first, first + carried});
    row += length;
  }
  return {step_list(ctx, starts), step_ranges(ctx, ranges),
          plan_own(ctx, sequences, heads.count(), heads.head_dim)};
}

}  // namespace

StepTensors::Blocks blocks_of(Context& ctx, std::span<const int32_t> lengths,
                              const CarriedVectors& carried, const Heads& heads) {
  const int half = carried.block - carried.block / 2;
  return {{blocks_of_tokens(ctx, lengths, carried, carried.block, heads),
           blocks_of_tokens(ctx, lengths, carried, half, heads)},
          carried_queries(ctx, lengths, carried.count, heads)};
}

CarriedEmbeddings::CarriedEmbeddings(const HostTensor& table, const Build& b)
    : build_(b), keep_alive_(table), table_(b.ctx.resident(table_of(table))) {}

Tensor CarriedEmbeddings::behind(const Tensor& tokens, int64_t sequences) const {
  const int64_t count = tokens.dim(0), each = table_.dim(0);
  std::vector<int32_t> rows(static_cast<size_t>(count)), ids;
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t i = 0; i < sequences * each; ++i) ids.push_back(static_cast<int32_t>(i % each));
  const Tensor out = build_.ctx.make({count + sequences * each, tokens.dim(1)});
  ops::gather_rows(build_.ctx, {tokens, step_list(build_.ctx, rows), out.rows(0, count)});
  const Tensor listed = step_list(build_.ctx, ids);
  ops::embedding(build_.ctx, {listed, listed, table_, {}, 1.0f, 0, 0, out.rows(count, out.dim(0))});
  return out;
}

BlockAttention::BlockAttention(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& o, const BlockAttentionOptions& block,
                               Norm carried_norm)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      block_(block),
      carried_norm_(std::move(carried_norm)) {}

Tensor BlockAttention::forward(NormedRows& x, const StepTensors& in) const {
  const Tensor rows = x.rows();
  const int64_t tokens = in.encoder_positions.dim(0), all = rows.dim(0);
  ops::layer_norm(build_.ctx,
                  carried_norm_.args({}, x.sum().rows(tokens, all), rows.rows(tokens, all), {}));
  NormedRows normed(rows);
  const auto [q, k, v] = qkv_.forward(normed);
  const OwnSequences& blocks = in.blocks.of_tokens[block_.staggered ? 1 : 0];
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  const Tensor out = args.out;
  args.q = q.rows(0, tokens);
  args.k = k.rows(0, tokens);
  args.v = v.rows(0, tokens);
  args.indptr = blocks.starts;
  args.out = out.rows(0, tokens);
  args.plan = blocks.plan();
  args.side = {k.rows(tokens, all), v.rows(tokens, all), blocks.ranges};
  ops::ragged_attention(build_.ctx, args);
  args.q = q.rows(tokens, all);
  args.indptr = in.blocks.carried.starts;
  args.kv_ranges = in.encoder_ranges;
  args.out = out.rows(tokens, all);
  args.plan = in.blocks.carried.plan();
  args.side.ranges = in.blocks.carried.ranges;
  ops::ragged_attention(build_.ctx, args);
  return out_.forward(out);
}

}  // namespace tandem
