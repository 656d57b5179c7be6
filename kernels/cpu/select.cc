// The CPU's select and ranks: plain loops over rows. (The CPU's sampler, runtime/sampling/sampler.h, works
// on rows itself and does more; this is the reference that devices are compared with.)
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double log_sum_of(const float* x, int64_t n) {
  float peak = -kInfinity;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return x[i];
    peak = std::max(peak, x[i]);
  }
  if (peak == kInfinity) return std::numeric_limits<double>::quiet_NaN();
  if (peak == -kInfinity) return -kInfinity;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - peak);
  return peak + std::log(sum);
}

float apply(const int32_t* edit, float x) {
  const float value = std::bit_cast<float>(edit[2]);
  switch (static_cast<ops::LogitEdit>(edit[1])) {
    case ops::LogitEdit::kAdd: return x + value;
    case ops::LogitEdit::kPenalise: return x < 0 ? x * value : x / value;
    case ops::LogitEdit::kSet: return value;
    case ops::LogitEdit::kFavour: return std::isfinite(x) ? x + std::fabs(x) * value : x;
  }
  return x;
}

ops::RowHistory history_of(const ops::SelectArgs& args, int64_t row) {
  ops::RowHistory h;
  if (!args.histories.empty())
    std::memcpy(static_cast<void*>(&h), args.histories.row<int32_t>(row), sizeof(h));
  return h;
}

// Once for each distinct token of the sequence.
void penalise(const ops::RowHistory& h, const int32_t* tokens, std::span<float> x) {
  const bool counts = h.presence != 0 || h.frequency != 0;
  if (h.repetition == 1.0f && !counts) return;
  struct Token {
    int32_t id;
    bool is_output;
  };
  std::vector<Token> sorted;
  for (int32_t i = 0; i < h.length; ++i)
    if (tokens[i] >= 0 && static_cast<size_t>(tokens[i]) < x.size())
      sorted.push_back({tokens[i], i >= h.first_output});
  std::ranges::sort(sorted, {}, &Token::id);
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::ranges::upper_bound(begin, sorted.end(), begin->id, {}, &Token::id);
    float& y = x[static_cast<size_t>(begin->id)];
    y = y < 0 ? y * h.repetition : y / h.repetition;
    const auto outputs = std::count_if(begin, end, [](const Token& t) { return t.is_output; });
    if (counts && outputs > 0) {
      const float product = h.frequency * static_cast<float>(outputs);
      y += -product;
      y += -h.presence;
    }
    begin = end;
  }
}

// What would complete an n-gram of the sequence for the second time.
void mask_ngrams(const ops::RowHistory& h, const int32_t* tokens, std::span<float> x) {
  const int64_t length = h.length, before = int64_t{h.ngram_size} - 1;
  if (before < 0 || length < before) return;
  const int32_t* last = tokens + length - before;
  for (int64_t i = 0; i + before < length; ++i) {
    const int32_t id = tokens[i + before];
    if (id >= 0 && static_cast<size_t>(id) < x.size() &&
        std::equal(last, last + before, tokens + i))
      x[static_cast<size_t>(id)] = -kInfinity;
  }
}

bool before(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

}  // namespace

void select(Context& ctx, const ops::SelectArgs& args) {
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1);
  const int32_t* indptr = args.edit_indptr.data<int32_t>();
  auto job = [&](int64_t row, int) {
    float* x = args.logits.row<float>(row);
    const int32_t flags = args.flags.data<int32_t>()[row];
    const double log_sum = log_sum_of(x, size);
    args.log_sums.data<float>()[row] = static_cast<float>(log_sum);
    for (int32_t e = indptr[row]; e < indptr[row + 1]; ++e)
      args.edited.data<float>()[e] = x[args.edits.row<int32_t>(e)[0]];
    if (flags & ops::kRowLogSoftmax)
      for (int64_t i = 0; i < size; ++i) x[i] = static_cast<float>(x[i] - log_sum);
    if (flags & ops::kRowMasked) std::fill(x, x + size, -kInfinity);
    const ops::RowHistory history = history_of(args, row);
    const int32_t* tokens = history.length > 0 ? args.tokens.row<int32_t>(history.place) : nullptr;
    const std::span<float> all(x, static_cast<size_t>(size));
    for (int32_t e = indptr[row]; e <= indptr[row + 1]; ++e) {
      if (e == indptr[row] + history.edits_before) penalise(history, tokens, all);
      if (e == indptr[row + 1]) break;
      const int32_t* edit = args.edits.row<int32_t>(e);
      x[edit[0]] = apply(edit, x[edit[0]]);
    }
    mask_ngrams(history, tokens, all);
    std::vector<int32_t> order(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(
        order.begin(), order.begin() + args.k, order.end(),
        [&](int32_t a, int32_t b) { return before(x[a], x[b]) || (!before(x[b], x[a]) && a < b); });
    for (int k = 0; k < args.k; ++k) {
      args.ids.row<int32_t>(row)[k] = order[static_cast<size_t>(k)];
      args.values.row<float>(row)[k] = x[order[static_cast<size_t>(k)]];
    }
    if (!args.best.empty()) args.best.data<int32_t>()[row] = order[0];
  };
  run_tasks(ctx, rows, job);
}

void rank_tokens(Context& ctx, const ops::RankTokensArgs& args) {
  const int64_t size = args.logits.dim(1);
  auto job = [&](int64_t i, int) {
    const float* x = args.logits.row<float>(i);
    const float own = x[args.chosen.data<int32_t>()[args.rows.data<int32_t>()[i]]];
    args.values.data<float>()[i] = own;
    args.ranks.data<int32_t>()[i] =
        1 + static_cast<int32_t>(std::count_if(x, x + size, [&](float y) { return y > own; }));
  };
  run_tasks(ctx, args.logits.dim(0), job);
}

}  // namespace tandem::cpu
