// The CPU's select and ranks, of the arithmetic that the host's sampler uses: what devices are
// compared with.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/logit_edits.h"
#include "kernels/row_math.h"

namespace tandem::cpu {
namespace {

std::span<float> row_of(const Tensor& logits, int64_t row) {
  return {logits.row<float>(row), static_cast<size_t>(logits.dim(1))};
}

ops::RowHistory history_of(const ops::SelectArgs& args, int64_t row) {
  ops::RowHistory h;
  if (!args.histories.empty())
    std::memcpy(static_cast<void*>(&h), args.histories.row<int32_t>(row), sizeof(h));
  return h;
}

// The edits of the row in their order, the penalties of its history between their two parts, and
// its n-grams behind them.
void process_row(const ops::SelectArgs& args, int64_t row, std::span<float> x) {
  const int32_t* indptr = args.edit_indptr.data<int32_t>();
  const ops::RowHistory history = history_of(args, row);
  std::span<const int32_t> tokens;
  if (history.length > 0)
    tokens = {args.tokens.row<int32_t>(history.place), static_cast<size_t>(history.length)};
  for (int32_t e = indptr[row]; e <= indptr[row + 1]; ++e) {
    if (e == indptr[row] + history.edits_before) penalise_tokens(history, tokens, x);
    if (e == indptr[row + 1]) break;
    const int32_t* edit = args.edits.row<int32_t>(e);
    float& entry = x[static_cast<size_t>(edit[0])];
    entry = edited(static_cast<ops::LogitEdit>(edit[1]), entry, std::bit_cast<float>(edit[2]));
  }
  mask_ngrams(history, tokens, x);
}

void mask_row(const ops::SelectArgs& args, int64_t row, std::span<float> x) {
  if (args.masks.empty()) return;
  const int32_t mask = args.mask_rows.data<int32_t>()[row];
  if (mask < 0) return;
  const int32_t* words = args.masks.row<int32_t>(mask);
  for (size_t id = 0; id < x.size(); ++id)
    if ((static_cast<uint32_t>(words[id / 32]) >> (id % 32) & 1) == 0)
      x[id] = -std::numeric_limits<float>::infinity();
}

}  // namespace

void select(Context& ctx, const ops::SelectArgs& args) {
  const int32_t* indptr = args.edit_indptr.data<int32_t>();
  auto job = [&](int64_t row, int) {
    const std::span<float> x = row_of(args.logits, row);
    const int32_t flags = args.flags.data<int32_t>()[row];
    const double log_sum = log_sum_exp(x);
    args.log_sums.data<float>()[row] = static_cast<float>(log_sum);
    for (int32_t e = indptr[row]; e < indptr[row + 1]; ++e)
      args.edited.data<float>()[e] = x[static_cast<size_t>(args.edits.row<int32_t>(e)[0])];
    if (flags & ops::kRowLogSoftmax) log_softmax(x, log_sum);
    if (flags & ops::kRowMasked) std::ranges::fill(x, -std::numeric_limits<float>::infinity());
    process_row(args, row, x);
    mask_row(args, row, x);
    const std::vector<int32_t> best = top_ids(x, static_cast<size_t>(args.k));
    for (size_t k = 0; k < best.size(); ++k) {
      args.ids.row<int32_t>(row)[k] = best[k];
      args.values.row<float>(row)[k] = x[static_cast<size_t>(best[k])];
    }
    if (!args.best.empty()) args.best.data<int32_t>()[row] = best[0];
  };
  run_tasks(ctx, args.logits.dim(0), job);
}

void rank_tokens(Context& ctx, const ops::RankTokensArgs& args) {
  auto job = [&](int64_t i, int) {
    const std::span<float> x = row_of(args.logits, i);
    const int32_t id = args.chosen.data<int32_t>()[args.rows.data<int32_t>()[i]];
    const float own = x[static_cast<size_t>(id)];
    args.values.data<float>()[i] = own;
    args.ranks.data<int32_t>()[i] = rank_of(x, own);
  };
  run_tasks(ctx, args.logits.dim(0), job);
}

}  // namespace tandem::cpu
