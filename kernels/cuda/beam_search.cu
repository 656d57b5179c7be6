// Rounds of beam search without the host: a block for each round finds where the next beams come
// from and lets what the device knows of them follow; the pages that they do not share are moved by
// a second kernel, of all layers in one launch. Decisions and arithmetic are those of
// runtime/sampling/beam_search.cc, bit for bit.
#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/row_order.cuh"

namespace tandem::cuda {
namespace {

constexpr int kBeamThreads = 256;
constexpr int kBeams = ops::kMaxDeviceBeams;
static_assert(kBeams == kWarpSize);
constexpr int kWidth = ops::kMaxSelect;  // candidates of a beam, and of a round
constexpr float kImpossible = -1e9f;

// --- Rows and pages that go from beam to beam ----------------------------------------------------

// Which of them change: so many go from one place to another.
struct Moves {
  int32_t from[kBeams], to[kBeams];
  int count;
};

// A warp, a lane for each beam: goes from `from` to `to`; nothing does if either is below 0.
__device__ __forceinline__ void collect_moves(int32_t from, int32_t to, Moves& moves) {
  const int lane = static_cast<int>(threadIdx.x);
  const bool moved = from >= 0 && to >= 0;
  const unsigned all = __ballot_sync(kFullWarp, moved);
  const int before = __popc(all & ((1u << lane) - 1));
  if (moved) {
    moves.from[before] = from;
    moves.to[before] = to;
  }
  if (lane == 0) moves.count = __popc(all);
}

// The first `size` words of rows, stretch by stretch of all of them at once through shared memory,
// so that any row may go to any. Every parts-th stretch is this block's. `tile`: kTileWords.
template <int kTileWords, class Word>
__device__ __forceinline__ void move_rows(Word* rows, int64_t stride, int64_t size,
                                          const Moves& moves, Word* tile, unsigned part,
                                          unsigned parts) {
  if (moves.count == 0) return;
  const int columns = kTileWords / moves.count;
  for (int64_t first = int64_t{part} * columns; first < size; first += int64_t{parts} * columns) {
    const int here = static_cast<int>(min(static_cast<int64_t>(columns), size - first));
    for (int i = static_cast<int>(threadIdx.x); i < here * moves.count; i += kBeamThreads)
      tile[i] = rows[moves.from[i / here] * stride + first + i % here];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < here * moves.count; i += kBeamThreads)
      rows[moves.to[i / here] * stride + first + i % here] = tile[i];
    __syncthreads();
  }
}

// --- Rounds --------------------------------------------------------------------------------------

struct SearchParams {
  const int32_t* ids;
  const float* values;
  int k;
  const ops::BeamRound* rounds;
  const ops::BeamPlace* beams;
  const int32_t* ends;
  int32_t *tokens, *pages;
  float* scores;
  int64_t tokens_stride, pages_stride;
  int32_t *parents, *chosen, *best;
};

struct Continuation {
  int beam, at;  // in the beam's row of candidates
};

// A round under way, in shared memory.
struct Search {
  int places[kBeams];
  float scores[kBeams];           // of the beams so far, then of the next ones
  int keys[kBeams][kWidth];       // of continuations, as the row has them; later a tile
  int sorted[kBeams][kWidth];     // the same, the best of a beam first
  uint8_t order[kBeams][kWidth];  // where in the row it was
  Continuation best[kWidth];      // of all beams
  int running[kWidth];            // their keys as running beams
  int parents[kBeams];
  int tokens[kBeams];
  Moves moves;
};

__device__ __forceinline__ const float* values_of(const SearchParams& p, const ops::BeamRound& r,
                                                  int beam) {
  return p.values + int64_t{r.first_row + (r.rows == 1 ? 0 : beam)} * p.k;
}
__device__ __forceinline__ const int32_t* ids_of(const SearchParams& p, const ops::BeamRound& r,
                                                 int beam) {
  return p.ids + int64_t{r.first_row + (r.rows == 1 ? 0 : beam)} * p.k;
}

// Sorts each beam's continuations by their sums. Their rows are in select()'s order, which decides
// among equals; sums follow it, but for infinities, whose sum may be a NaN.
__device__ void sort_rows(const SearchParams& p, const ops::BeamRound& r, int width, Search& s) {
  const int all = r.num_beams * width;
  for (int e = static_cast<int>(threadIdx.x); e < all; e += kBeamThreads) {
    const int beam = e / width, at = e % width;
    s.keys[beam][at] = order_key(__fadd_rn(values_of(p, r, beam)[at], s.scores[beam]));
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < all; e += kBeamThreads) {
    const int beam = e / width, at = e % width, key = s.keys[beam][at];
    int before = 0;
    for (int i = 0; i < width; ++i) {
      const int other = s.keys[beam][i];
      before += other > key || (other == key && i < at) ? 1 : 0;
    }
    s.sorted[beam][before] = key;
    s.order[beam][before] = static_cast<uint8_t>(at);
  }
  __syncthreads();
}

// Merges the beams' rows: a warp, a lane for each beam, which knows its best continuation that was
// not taken yet. Of equals the lower beam.
__device__ void merge_rows(const ops::BeamRound& r, int width, int count, Search& s) {
  constexpr int kNothing = static_cast<int>(0x80000000);  // no float's key
  const int lane = static_cast<int>(threadIdx.x);
  int taken = 0;
  int mine = lane < r.num_beams ? s.sorted[lane][0] : kNothing;
  for (int n = 0; n < count; ++n) {
    int best = mine;
    for (int offset = 16; offset > 0; offset /= 2)
      best = max(best, __shfl_xor_sync(kFullWarp, best, offset));
    const int owner = __ffs(static_cast<int>(__ballot_sync(kFullWarp, mine == best))) - 1;
    if (lane != owner) continue;
    s.best[n] = {lane, s.order[lane][taken]};
    ++taken;
    mine = taken < width ? s.sorted[lane][taken] : kNothing;
  }
}

// The next beams: of the best continuations those that do not end, or else those that do. A thread
// for each continuation.
__device__ void choose_running(const SearchParams& p, const ops::BeamRound& r, int count,
                               Search& s) {
  const int i = static_cast<int>(threadIdx.x);
  Continuation c{};
  int32_t token = 0;
  float score = 0.0f;
  if (i < count) {
    c = s.best[i];
    token = ids_of(p, r, c.beam)[c.at];
    bool ends = false;
    for (int32_t e = 0; e < r.num_ends; ++e) ends = ends || p.ends[r.first_end + e] == token;
    score = __fadd_rn(__fadd_rn(values_of(p, r, c.beam)[c.at], s.scores[c.beam]),
                      ends ? kImpossible : 0.0f);
    s.running[i] = order_key(score);
  }
  __syncthreads();
  int before = 0;
  if (i < count)
    for (int j = 0; j < count; ++j)
      before += s.running[j] > s.running[i] || (s.running[j] == s.running[i] && j < i) ? 1 : 0;
  if (i < count && before < r.num_beams) {
    s.parents[before] = r.rows == 1 ? 0 : c.beam;
    s.tokens[before] = token;
    s.scores[before] = score;
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kBeamThreads) search_beams_kernel(SearchParams p) {
  wait_for_earlier_kernels();
  __shared__ Search s;
  const ops::BeamRound r = p.rounds[blockIdx.x];
  if (r.num_beams == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  // (A vocabulary may be smaller than what is asked of each row.)
  const int width = min(r.num_candidates, p.k);
  const int count = min(r.num_candidates, r.num_beams * width);
  if (thread < r.num_beams) {
    const ops::BeamPlace& beam = p.beams[r.first_beam + thread];
    s.places[thread] = beam.place;
    s.scores[thread] = p.scores[beam.place];
    if (beam.filled >= 0) p.pages[beam.place * p.pages_stride + r.full_pages - 1] = beam.filled;
  }
  __syncthreads();
  sort_rows(p, r, width, s);
  if (thread < kWarpSize) merge_rows(r, width, count, s);
  __syncthreads();
  choose_running(p, r, count, s);
  if (thread < kWarpSize) {
    const bool moved = thread < r.num_beams && s.parents[thread] != thread;
    collect_moves(moved ? s.places[s.parents[thread]] : -1, moved ? s.places[thread] : -1, s.moves);
  }
  __syncthreads();
  int* tile = &s.keys[0][0];
  move_rows<kBeams * kWidth>(p.tokens, p.tokens_stride, r.length, s.moves, tile, 0, 1);
  move_rows<kBeams * kWidth>(p.pages, p.pages_stride, r.full_pages, s.moves, tile, 0, 1);
  if (thread >= r.num_beams) return;
  const int32_t token = s.tokens[thread];
  p.tokens[s.places[thread] * p.tokens_stride + r.length] = token;
  p.scores[s.places[thread]] = s.scores[thread];
  p.parents[r.first_beam + thread] = s.parents[thread];
  p.chosen[r.first_beam + thread] = p.best[r.first_beam + thread] = token;
}

// --- Pages ---------------------------------------------------------------------------------------

constexpr int kMaxPools = 64;
constexpr int kTileBytes = 16384;

struct PoolParams {
  unsigned char* pools[kMaxPools];
  int64_t bytes[kMaxPools];  // of a block
  const ops::BeamRound* rounds;
  const ops::BeamPlace* beams;
  const int32_t* parents;
};

template <class Word>
__device__ void move_pages(unsigned char* pool, int64_t bytes, const Moves& moves, void* tile) {
  constexpr int64_t kSize = sizeof(Word);
  move_rows<kTileBytes / kSize>(reinterpret_cast<Word*>(pool), bytes / kSize, bytes / kSize, moves,
                                static_cast<Word*>(tile), blockIdx.x, gridDim.x);
}

// A round in grid.y, a pool in grid.z; grid.x shares the bytes of a block.
__global__ void __launch_bounds__(kBeamThreads) move_pages_kernel(PoolParams p) {
  wait_for_earlier_kernels();
  __shared__ Moves moves;
  __shared__ Vector<float> tile[kTileBytes / 16];
  const ops::BeamRound r = p.rounds[blockIdx.y];
  if (r.num_beams == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarpSize) {
    int32_t from = -1, to = -1;
    if (thread < r.num_beams) {
      const int32_t parent = p.parents[r.first_beam + thread];
      if (parent != thread) from = p.beams[r.first_beam + parent].page;
      to = p.beams[r.first_beam + thread].page;
    }
    collect_moves(from, to, moves);
  }
  __syncthreads();
  unsigned char* pool = p.pools[blockIdx.z];
  const int64_t bytes = p.bytes[blockIdx.z];
  const uint64_t alignment = reinterpret_cast<uint64_t>(pool) | static_cast<uint64_t>(bytes);
  if (alignment % 16 == 0) {
    move_pages<Vector<float>>(pool, bytes, moves, tile);
  } else if (alignment % 4 == 0) {
    move_pages<uint32_t>(pool, bytes, moves, tile);
  } else {
    move_pages<unsigned char>(pool, bytes, moves, tile);
  }
}

}  // namespace

void search_beams(Context& ctx, const ops::SearchBeamsArgs& args) {
  SearchParams p{};
  p.ids = args.ids.data<int32_t>();
  p.values = args.values.data<float>();
  p.k = static_cast<int>(args.ids.dim(1));
  p.rounds = static_cast<const ops::BeamRound*>(args.rounds.raw());
  p.beams = static_cast<const ops::BeamPlace*>(args.beams.raw());
  p.ends = static_cast<const int32_t*>(args.ends.raw());
  p.tokens = args.memory.tokens.data<int32_t>();
  p.pages = args.memory.pages.data<int32_t>();
  p.scores = args.memory.scores.data<float>();
  p.tokens_stride = args.memory.tokens.row_stride();
  p.pages_stride = args.memory.pages.row_stride();
  p.parents = args.parents.data<int32_t>();
  p.chosen = args.chosen.data<int32_t>();
  p.best = args.best.data<int32_t>();
  TANDEM_LAUNCH(search_beams_kernel, static_cast<unsigned>(args.rounds.dim(0)), kBeamThreads, 0,
                stream_of(ctx), p);
  after_launch("search_beams");
}

void move_beam_pages(Context& ctx, const ops::MoveBeamPagesArgs& args) {
  constexpr int64_t kRounds = 65535;  // grid.y
  for (size_t first = 0; first < args.pools.size(); first += kMaxPools) {
    const auto pools =
        args.pools.subspan(first, std::min<size_t>(kMaxPools, args.pools.size() - first));
    PoolParams p{};
    unsigned count = 0;
    int64_t largest = 0;
    for (const Tensor& pool : pools) {
      if (pool.bytes() == 0) continue;
      p.pools[count] = static_cast<unsigned char*>(pool.raw());
      p.bytes[count] = static_cast<int64_t>(pool.bytes()) / pool.dim(0);
      largest = std::max(largest, p.bytes[count++]);
    }
    if (count == 0) continue;
    p.beams = static_cast<const ops::BeamPlace*>(args.beams.raw());
    p.parents = args.parents.data<int32_t>();
    for (int64_t round = 0; round < args.rounds.dim(0); round += kRounds) {
      p.rounds = static_cast<const ops::BeamRound*>(args.rounds.raw()) + round;
      // A tile of four moves is a block's only one.
      const dim3 grid(static_cast<unsigned>(ceil_div(largest, kTileBytes / 4)),
                      static_cast<unsigned>(std::min(kRounds, args.rounds.dim(0) - round)), count);
      TANDEM_LAUNCH(move_pages_kernel, grid, kBeamThreads, 0, stream_of(ctx), p);
    }
  }
  after_launch("move_beam_pages");
}

}  // namespace tandem::cuda
