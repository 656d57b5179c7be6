#include "models/blocks/attention/sparse_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tandem {
namespace {

// The queries of one block, whose keys are rows of the encoder and, perhaps, the outer blocks.
class Queries {
 public:
  // Rows [begin, end) of the encoder see rows [first_key, end_key) and side keys.
  void add(int32_t begin, int32_t end, int32_t first_key, int32_t end_key, int32_t side_begin,
           int32_t side_end) {
    starts_.push_back(end);
    keys_.insert(keys_.end(), {first_key, end_key});
    sides_.insert(sides_.end(), {side_begin, side_end});
    sequences_.push_back({begin, end - begin, end_key - first_key, first_key, false});
  }
  // A sequence from row `first` on.
  void add_sequence(int32_t first, int32_t length, int32_t block, int32_t side) {
    const int32_t count = (length - 1) / block + 1, end = first + length;
    const int32_t last = first + (count - 1) * block;
    add(first, first + block, first, end, side, side);
    for (int32_t i = 1; i + 1 < count; ++i) {
      const int32_t begin = first + i * block;
      add(begin, begin + block, std::max(begin - block, first + block),
          std::min(begin + 2 * block, last), side, side + block + end - last);
    }
    add(last, end, first, end, side, side);
  }
  StepTensors::Sparse made(Context& ctx, const std::vector<int32_t>& outer,
                           const Heads& heads) const {
    return {{step_list(ctx, starts_), step_ranges(ctx, sides_),
             plan_own(ctx, sequences_, heads.count(), heads.head_dim)},
            step_ranges(ctx, keys_),
            step_list(ctx, outer)};
  }

 private:
  std::vector<int32_t> starts_{0}, keys_, sides_;
  std::vector<AttentionSequence> sequences_;
};

// A column for each side key: those of a first block, then those of a last one.
ops::PositionBias times_of(const Build& b, const SparseBlocks& blocks, int heads) {
  if (blocks.random == 0 || heads == 0) return {};
  const Tensor values({heads, blocks.block + 1}, DType::kF32);
  for (int64_t head = 0; head < heads; ++head) {
    float* row = values.row<float>(head);
    std::fill_n(row, blocks.block, std::log1p(static_cast<float>(blocks.random)));
    row[blocks.block] = 0.0f;
  }
  return {b.ctx.resident(values), 0};
}

}  // namespace

StepTensors::Sparse sparse_of(Context& ctx, std::span<const int32_t> lengths,
                              const SparseBlocks& blocks, const Heads& heads) {
  Queries queries;
  std::vector<int32_t> outer;  // rows of first and last blocks
  int32_t first = 0;
  for (const int32_t length : lengths) {
    const int32_t end = first + length, block = blocks.block;
    if (blocks.whole(length)) {
      queries.add(first, end, first, end, 0, 0);
    } else {
      queries.add_sequence(first, length, block, static_cast<int32_t>(outer.size()));
      for (int32_t row = first; row < first + block; ++row) outer.push_back(row);
      for (int32_t row = first + (length - 1) / block * block; row < end; ++row)
        outer.push_back(row);
    }
    first = end;
  }
  return queries.made(ctx, outer, heads);
}

SparseAttention::SparseAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o, const SparseBlocks& blocks)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      times_(times_of(b, blocks, heads_.count())) {}

Tensor SparseAttention::forward(NormedRows& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const StepTensors::Sparse& sparse = in.sparse;
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  args.indptr = sparse.blocks.starts;
  args.plan = sparse.blocks.plan();
  args.kv_ranges = sparse.keys;
  args.side = {.k = {}, .v = {}, .ranges = sparse.blocks.ranges, .bias = times_, .unit = 0};
  if (const Tensor& outer = sparse.outer; !outer.empty() && k.dim(1) > 0)
    for (const auto& [from, to] : {std::pair{&k, &args.side.k}, std::pair{&v, &args.side.v}}) {
      *to = build_.ctx.make({outer.dim(0), from->dim(1)});
      ops::gather_rows(build_.ctx, {*from, outer, *to});
    }
  ops::ragged_attention(build_.ctx, args);
  return out_.forward(args.out);
}

}  // namespace tandem
