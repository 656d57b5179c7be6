// From logits to the best tokens, without a row of logits leaving the device: log of the sum of
// exponentials, processors (single entries changed), the k largest. A block for each row.
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/row_best.cuh"

namespace tandem::cuda {
namespace {

// Of a block: of a vocabulary, and of fewer entries.
constexpr int kManyThreads = 1024, kFewThreads = 256;
constexpr int64_t kFewEntries = 8192;
template <int kThreads>
constexpr int kSelectWarps = kThreads / kWarpSize;

// A thread's entries of a row are i = thread, thread + kThreads, ...: the best of those at `i`.
template <int kThreads>
__device__ __forceinline__ void take_best(const float (&x)[kAhead], int i, int size, Best& mine) {
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    const Best one = {order_key(x[j]), i + j * kThreads};
    if (i + j * kThreads < size && better(one, mine)) mine = one;
  }
}
// use(x, i) of all of a thread's entries, kAhead of them at a time, the next of which are under
// way.
template <int kThreads, class Use>
__device__ __forceinline__ void for_entries(const float* row, int size, const Use& use) {
  constexpr int kRound = kAhead * kThreads;
  int i = static_cast<int>(threadIdx.x);
  float next[kAhead];
  load_ahead(row, i, size, kThreads, minus_infinity(), next);
  for (; i < size; i += kRound) {
    float x[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) x[j] = next[j];
    load_ahead(row, i + kRound, size, kThreads, minus_infinity(), next);
    use(x, i);
  }
}
// Of all of them.
template <int kThreads>
__device__ __forceinline__ Best thread_best(const float* row, int size) {
  Best mine = nothing();
  for_entries<kThreads>(
      row, size, [&](const float(&x)[kAhead], int i) { take_best<kThreads>(x, i, size, mine); });
  return mine;
}
// By a warp, of the entries of thread `owner` that `counts`.
template <int kThreads, class Counts>
__device__ __forceinline__ Best best_of(int owner, const float* row, int size,
                                        const Counts& counts) {
  Best best = nothing();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int i = owner + lane * kThreads; i < size; i += kWarpSize * kThreads) {
    const Best one = {order_key(row[i]), i};
    if (counts(one) && better(one, best)) best = one;
  }
  return warp_best(best);
}

__device__ __forceinline__ void take(Peak& p, const float (&x)[kAhead]) {
  float peak = p.peak;
#pragma unroll
  for (int j = 0; j < kAhead; ++j) {
    if (x[j] != x[j] || x[j] == __int_as_float(0x7f800000)) p.invalid = true;
    peak = fmaxf(peak, x[j]);
  }
  if (peak == minus_infinity()) return;
  if (peak > p.peak) p.sum *= static_cast<double>(expf(p.peak - peak));
  p.peak = peak;
#pragma unroll
  for (int j = 0; j < kAhead; ++j) p.sum += static_cast<double>(expf(x[j] - peak));
}
// Of all lanes, in all of them.
__device__ __forceinline__ Peak warp_peak(Peak p) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Peak other = {__shfl_xor_sync(kFullWarp, p.peak, offset),
                        __shfl_xor_sync(kFullWarp, p.sum, offset),
                        __shfl_xor_sync(kFullWarp, static_cast<int>(p.invalid), offset) != 0};
    p = joined(p, other);
  }
  return p;
}
// `mine`: the best of the thread's entries, found on the way.
template <int kThreads>
__device__ double row_log_sum(const float* row, int size, Best& mine) {
  __shared__ Peak parts[kSelectWarps<kThreads>];
  __shared__ double result;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  Peak p = {minus_infinity(), 0.0, false};
  for_entries<kThreads>(row, size, [&](const float(&x)[kAhead], int i) {
    take(p, x);
    take_best<kThreads>(x, i, size, mine);
  });
  p = warp_peak(p);
  if (lane == 0) parts[warp] = p;
  __syncthreads();
  if (warp == 0) {
    p = warp_peak(lane < kSelectWarps<kThreads> ? parts[lane] : Peak{minus_infinity(), 0.0, false});
    if (lane == 0) result = log_sum_of(p);
  }
  __syncthreads();
  return result;
}

__device__ __forceinline__ float edited_value(int32_t edit, float value, float x) {
  switch (static_cast<ops::LogitEdit>(edit)) {
    case ops::LogitEdit::kAdd: return __fadd_rn(x, value);
    case ops::LogitEdit::kPenalise: return x < 0 ? __fmul_rn(x, value) : __fdiv_rn(x, value);
    case ops::LogitEdit::kSet: return value;
    case ops::LogitEdit::kFavour:
      return x - x == 0.0f ? __fadd_rn(x, __fmul_rn(fabsf(x), value)) : x;
  }
  return x;
}

struct SelectParams {
  float* logits;
  int64_t stride;
  int32_t size;
  int k;
  const int32_t *flags, *edit_indptr, *edits;
  float *log_sums, *edited;
  int32_t* ids;
  float* values;
  int32_t* best;                     // or null
  const ops::RowHistory* histories;  // or null
  const int32_t* tokens;
  int64_t tokens_stride;
  const uint32_t* masks;  // or null
  const int32_t* mask_rows;
  int32_t mask_words;  // of a mask
};

// Which threads have entries that were changed.
template <int kThreads>
struct Changed {
  bool threads[kThreads];
  __device__ void add(int32_t id) { threads[id % kThreads] = true; }
};

// Once for each distinct token of the sequence, by the thread that has its first place.
template <int kThreads>
__device__ void penalise(const SelectParams& p, const ops::RowHistory& h, float* row,
                         Changed<kThreads>& changed) {
  const bool counts = h.presence != 0 || h.frequency != 0;
  if (h.repetition == 1.0f && !counts) return;
  const int32_t* tokens = p.tokens + h.place * p.tokens_stride;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < h.length; i += kThreads) {
    const int32_t id = tokens[i];
    if (id < 0 || id >= p.size) continue;
    int32_t first = 0;
    while (tokens[first] != id) ++first;
    if (first < i) continue;
    int32_t outputs = 0;
    if (counts)
      for (int32_t j = max(i, h.first_output); j < h.length; ++j) outputs += tokens[j] == id;
    float x = row[id];
    x = x < 0 ? __fmul_rn(x, h.repetition) : __fdiv_rn(x, h.repetition);
    if (outputs > 0) {
      x = __fadd_rn(x, -__fmul_rn(h.frequency, static_cast<float>(outputs)));
      x = __fadd_rn(x, -h.presence);
    }
    row[id] = x;
    changed.add(id);
  }
}

// What would complete an n-gram of the sequence for the second time: a thread for each place in it.
template <int kThreads>
__device__ void mask_ngrams(const SelectParams& p, const ops::RowHistory& h, float* row,
                            Changed<kThreads>& changed) {
  const int32_t before = h.ngram_size - 1;
  if (before < 0 || h.length < before) return;
  const int32_t* tokens = p.tokens + h.place * p.tokens_stride;
  const int32_t places = h.length - before;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < places; i += kThreads) {
    int32_t alike = 0;
    while (alike < before && tokens[i + alike] == tokens[places + alike]) ++alike;
    const int32_t id = tokens[i + before];
    if (alike != before || id < 0 || id >= p.size) continue;
    row[id] = minus_infinity();
    changed.add(id);
  }
}

// One thread for all edits of an entry.
template <int kThreads>
__device__ void apply_edits(const SelectParams& p, float* row, int32_t begin, int32_t end,
                            Changed<kThreads>& changed) {
  for (int32_t e = begin + static_cast<int32_t>(threadIdx.x); e < end; e += kThreads) {
    const int32_t id = p.edits[3 * e];
    if (e > begin && p.edits[3 * (e - 1)] == id) continue;  // another thread's
    float x = row[id];
    for (int32_t f = e; f < end && p.edits[3 * f] == id; ++f)
      x = edited_value(p.edits[3 * f + 1], __int_as_float(p.edits[3 * f + 2]), x);
    row[id] = x;
    changed.add(id);
  }
  __syncthreads();
}

// What the row may not have, where it has a mask. A warp's entries are of one word.
template <int kThreads>
__device__ void mask_row(const SelectParams& p, float* row, Changed<kThreads>& changed) {
  if (p.masks == nullptr) return;
  const int32_t mask = p.mask_rows[blockIdx.x];
  if (mask < 0) return;
  const uint32_t* words = p.masks + static_cast<int64_t>(mask) * p.mask_words;
  changed.threads[threadIdx.x] = true;
  for (int i = static_cast<int>(threadIdx.x); i < p.size; i += kThreads)
    if ((words[i / 32] >> (i % 32) & 1u) == 0) row[i] = minus_infinity();
  __syncthreads();
}

// Processors of a row: the whole row if its flags say so, then the listed entries and what the
// sequence's tokens say (RowHistory).
template <int kThreads>
__device__ void process_row(const SelectParams& p, float* row, double log_sum,
                            Changed<kThreads>& changed) {
  const int32_t flags = p.flags[blockIdx.x];
  const int32_t begin = p.edit_indptr[blockIdx.x], end = p.edit_indptr[blockIdx.x + 1];
  for (int32_t e = begin + static_cast<int32_t>(threadIdx.x); e < end; e += kThreads)
    p.edited[e] = row[p.edits[3 * e]];
  __syncthreads();
  if (flags != 0) {
    changed.threads[threadIdx.x] = true;
    const bool masked = (flags & ops::kRowMasked) != 0;
    for (int i = static_cast<int>(threadIdx.x); i < p.size; i += kAhead * kThreads) {
      float x[kAhead];
      load_ahead(row, i, p.size, kThreads, minus_infinity(), x);
#pragma unroll
      for (int j = 0; j < kAhead; ++j)
        if (i + j * kThreads < p.size)
          row[i + j * kThreads] = masked ? minus_infinity() : static_cast<float>(x[j] - log_sum);
    }
  }
  __syncthreads();
  if (p.histories == nullptr) {
    apply_edits(p, row, begin, end, changed);
    return mask_row(p, row, changed);
  }
  const ops::RowHistory history = p.histories[blockIdx.x];
  apply_edits(p, row, begin, begin + history.edits_before, changed);
  penalise(p, history, row, changed);
  __syncthreads();
  apply_edits(p, row, begin + history.edits_before, end, changed);
  mask_ngrams(p, history, row, changed);
  __syncthreads();
  mask_row(p, row, changed);
}

// The best of each thread's entries, where some of its warp's were changed behind the first look.
template <int kThreads>
__device__ __forceinline__ void look_again(const float* row, int size,
                                           const Changed<kThreads>& changed, Best& mine) {
  constexpr int kFew = 4;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarpSize;
  unsigned lanes = __ballot_sync(kFullWarp, changed.threads[thread]);
  if (__popc(lanes) > kFew) {
    mine = thread_best<kThreads>(row, size);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    const int owner = __ffs(static_cast<int>(lanes)) - 1;
    const Best best =
        best_of<kThreads>(thread - lane + owner, row, size, [](const Best&) { return true; });
    if (lane == owner) mine = best;
  }
}

// Each thread knows the best of its entries that were not chosen yet. The best of all is chosen,
// and its owner's warp looks for the owner's next one: those that are worse than the chosen one, as
// all others of that thread are. Where nothing changes in a row, and of it one entry is chosen, it
// is read once.
template <int kThreads>
__global__ void __launch_bounds__(kThreads, kManyThreads / kThreads) select_kernel(SelectParams p) {
  wait_for_earlier_kernels();
  __shared__ Best warps[kSelectWarps<kThreads>];
  __shared__ Best chosen;
  __shared__ Changed<kThreads> changed;
  float* row = p.logits + blockIdx.x * p.stride;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize, warp = thread / kWarpSize;
  changed.threads[thread] = false;
  Best mine = nothing();
  const double log_sum = row_log_sum<kThreads>(row, p.size, mine);
  if (thread == 0) p.log_sums[blockIdx.x] = static_cast<float>(log_sum);
  process_row(p, row, log_sum, changed);
  look_again(row, p.size, changed, mine);
  for (int n = 0; n < p.k; ++n) {
    const Best of_warp = warp_best(mine);
    if (lane == 0) warps[warp] = of_warp;
    __syncthreads();
    if (warp == 0) {
      const Best of_block = warp_best(lane < kSelectWarps<kThreads> ? warps[lane] : nothing());
      if (lane == 0) {
        chosen = of_block;
        p.ids[blockIdx.x * p.k + n] = of_block.id;
        p.values[blockIdx.x * p.k + n] = row[of_block.id];
        if (n == 0 && p.best != nullptr) p.best[blockIdx.x] = of_block.id;
      }
    }
    __syncthreads();
    if (n + 1 == p.k) break;
    const int owner = chosen.id % kThreads;
    if (owner / kWarpSize != warp) continue;
    const Best next =
        best_of<kThreads>(owner, row, p.size, [&](const Best& one) { return better(chosen, one); });
    if (lane == owner % kWarpSize) mine = next;
  }
}

// A block for each row.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    rank_kernel(const float* logits, int64_t stride, int32_t size, const int32_t* rows,
                const int32_t* chosen, float* values, int32_t* ranks) {
  wait_for_earlier_kernels();
  __shared__ int32_t counts[kSelectWarps<kThreads>];
  const float* row = logits + blockIdx.x * stride;
  const float own = row[chosen[rows[blockIdx.x]]];
  const int thread = static_cast<int>(threadIdx.x);
  int32_t above = 0;
  for (int i = thread; i < size; i += kThreads) above += row[i] > own ? 1 : 0;
  for (int offset = 16; offset > 0; offset /= 2) above += __shfl_xor_sync(kFullWarp, above, offset);
  if (thread % kWarpSize == 0) counts[thread / kWarpSize] = above;
  __syncthreads();
  if (thread != 0) return;
  int32_t rank = 1;
  for (int w = 0; w < kSelectWarps<kThreads>; ++w) rank += counts[w];
  values[blockIdx.x] = own;
  ranks[blockIdx.x] = rank;
}

// launch(threads): with as many as rows of so many entries are worth.
template <class Launch>
void with_threads(int64_t size, const Launch& launch) {
  if (size <= kFewEntries) return launch(std::integral_constant<int, kFewThreads>());
  launch(std::integral_constant<int, kManyThreads>());
}

}  // namespace

void select(Context& ctx, const ops::SelectArgs& args) {
  SelectParams p{};
  p.logits = args.logits.data<float>();
  p.stride = args.logits.row_stride();
  p.size = static_cast<int32_t>(args.logits.dim(1));
  p.k = args.k;
  p.flags = args.flags.data<int32_t>();
  p.edit_indptr = args.edit_indptr.data<int32_t>();
  p.edits = static_cast<const int32_t*>(args.edits.raw());
  p.log_sums = args.log_sums.data<float>();
  p.edited = static_cast<float*>(args.edited.raw());
  p.ids = args.ids.data<int32_t>();
  p.values = args.values.data<float>();
  p.best = args.best.empty() ? nullptr : args.best.data<int32_t>();
  if (!args.histories.empty()) {
    p.histories = static_cast<const ops::RowHistory*>(args.histories.raw());
    p.tokens = args.tokens.data<int32_t>();
    p.tokens_stride = args.tokens.row_stride();
  }
  if (!args.masks.empty()) {
    p.masks = static_cast<const uint32_t*>(args.masks.raw());
    p.mask_rows = args.mask_rows.data<int32_t>();
    p.mask_words = static_cast<int32_t>(args.masks.dim(1));
  }
  with_threads(p.size, [&](auto threads) {
    constexpr int kThreads = decltype(threads)::value;
    TANDEM_LAUNCH(select_kernel<kThreads>, static_cast<unsigned>(args.logits.dim(0)), kThreads, 0,
                  stream_of(ctx), p);
  });
  after_launch("select");
}

void rank_tokens(Context& ctx, const ops::RankTokensArgs& args) {
  with_threads(args.logits.dim(1), [&](auto threads) {
    constexpr int kThreads = decltype(threads)::value;
    TANDEM_LAUNCH(rank_kernel<kThreads>, static_cast<unsigned>(args.logits.dim(0)), kThreads, 0,
                  stream_of(ctx), args.logits.data<float>(), args.logits.row_stride(),
                  static_cast<int32_t>(args.logits.dim(1)), args.rows.data<int32_t>(),
                  args.chosen.data<int32_t>(), args.values.data<float>(),
                  args.ranks.data<int32_t>());
  });
  after_launch("rank_tokens");
}

}  // namespace tandem::cuda
