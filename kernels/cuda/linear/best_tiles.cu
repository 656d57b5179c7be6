// The head of 9 to 128 greedy rows on tensor cores, of 16-bit weights: no logit is in memory.
//
// A block has 16, 32 or 64 of the rows, whole in shared memory, and takes tiles of 128 features one
// after the other. Its stages of weights run on from a tile to the next, the first of them asked
// for before the kernels in front have ended; rows come with the weights of the first tile. Two
// blocks share the weights of more than 64 rows, through the L2 cache. What a tile says of a row
// (BestPart) is 16 bytes in memory, and a second launch, a block for each row, joins these.
//
// A row's answer does not depend on the other rows, on how many there are or on the device: what is
// added is in an order that the features alone give, within a tile and over the tiles.
#include <algorithm>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/best_part.cuh"
#include "kernels/cuda/linear/tile_stages.cuh"
#include "kernels/cuda/linear/weight_path.h"

namespace tandem::cuda {
namespace {

constexpr int kBestFeatures = 128;  // of a tile
constexpr int kMostGroups = 2;      // of rows: so often weights come out of the L2 cache
constexpr int kJoinThreads = 128;

using BestStage = tiles::Stage<kBestFeatures>;
template <class T, int kTokens>
using BestSums = tiles::WarpSums<T, kBestFeatures, kTokens>;

struct TileProduct {
  BestProduct of;
  int64_t tiles;
  BestPart<float>* parts;  // [tiles, rows]
};

// Of a block: stages, what its warps say of a tile, rows.
size_t shared_bytes(int64_t k, int tokens) {
  return tiles::kStages * sizeof(BestStage) +
         static_cast<size_t>(tokens) *
             (tiles::kFeatureGroups * sizeof(BestPart<float>) + tiles::row_pitch(k) * 2);
}

// Where the weights of a stage are: a block takes the steps of a tile, then those of its next one.
struct BestPlace {
  int64_t tile;
  int step;
  __device__ __forceinline__ BestPlace(int64_t of, int steps)
      : tile(blockIdx.x + of / steps * gridDim.x), step(static_cast<int>(of % steps)) {}
};

// The first stages of the weight, which is constant, are under way before anything is waited for.
[[maybe_unused]] __device__ __forceinline__ void prefetch_stages(const TileProduct& b, int steps) {
  TANDEM_DYNAMIC_SHARED(shared);
  auto* stages = reinterpret_cast<BestStage*>(shared);
  for (int i = 0; i < tiles::kStages - 1; ++i) {
    const BestPlace at(i, steps);
    if (at.tile < b.tiles)
      tiles::load_stage(b.of.product, stages[i], at.tile * kBestFeatures, at.step);
    cp_async_commit();
  }
}

// A step's elements of the block's rows; zeros behind k, and for rows that are not there.
template <class T, int kTokens>
__device__ __forceinline__ void load_rows(const BestProduct& b, T* rows, int step) {
  constexpr int kPieces = tiles::kStep / tiles::kPiece;
  const WeightProduct& p = b.product;
  const int pitch = tiles::row_pitch(p.k);
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * kPieces; i += tiles::kThreads) {
    const int token = i / kPieces, k = step * tiles::kStep + i % kPieces * tiles::kPiece;
    const int64_t row = int64_t{blockIdx.y} * kTokens + token;
    const bool there = row < p.rows && k < p.k;  // k % 8 = 0
    const int64_t from = there ? b.x_rows[row] * p.x_stride + k : 0;
    cp_async_16(rows + token * pitch + k, static_cast<const T*>(p.x) + from, there);
  }
}

// Joins what the eight lanes of the same tokens say, whose numbers differ in the bits from kOffset
// down to 4; while a lane has several tokens, each step leaves it half of them. (A recursion, so
// that all indices are constants.)
template <int kCount, int kOffset, int kSize>
__device__ __forceinline__ BestPart<float> spread_parts(BestPart<float> (&parts)[kSize]) {
  if constexpr (kOffset < 4) {
    return parts[0];
  } else if constexpr (kCount > 1) {
    const bool upper = (static_cast<int>(threadIdx.x) & kOffset) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const BestPart<float> sent = upper ? parts[i] : parts[i + kCount / 2];
      const BestPart<float> kept = upper ? parts[i + kCount / 2] : parts[i];
      parts[i] = joined(kept, part_beside(sent, kOffset));
    }
    return spread_parts<kCount / 2, kOffset / 2>(parts);
  } else {
    parts[0] = joined(parts[0], part_beside(parts[0], kOffset));
    return spread_parts<1, kOffset / 2>(parts);
  }
}

// What the warp's features say of its tokens: each in a lane (or several) of those that have it.
template <class T, int kTokens>
__device__ __forceinline__ void tell_warp(const BestProduct& b, int64_t tile,
                                          const BestSums<T, kTokens>& of_warp,
                                          BestPart<float> (*groups)[kTokens]) {
  using Sums = BestSums<T, kTokens>;
  constexpr int kSize = Sums::kOwn / 4;  // tokens of a lane
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const auto* biases = static_cast<const float*>(b.product.epilogue.bias);
  BestPart<float> parts[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) parts[i] = no_part<float>();
#pragma unroll
  for (int f = 0; f < Sums::kMmas * 2; ++f) {
    const int64_t feature = tile * kBestFeatures + Sums::first_feature() + f * 8 + lane / 4;
    if (feature >= b.product.n) break;
    const float bias = biases == nullptr ? 0.0f : biases[feature];
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float logit = logit_of(b, of_warp.sums[f / 2][i / 2][f % 2 * 2 + i % 2], bias);
      parts[i] = joined(parts[i], part_of<float>(logit, static_cast<int32_t>(feature)));
    }
  }
  const BestPart<float> own = spread_parts<kSize, kWarpSize / 2>(parts);
  constexpr int kAlike = 8 / kSize;  // lanes with the same token
  const int i = lane / 4 / kAlike;
  if (lane / 4 % kAlike == 0)
    groups[Sums::feature_group()][Sums::first_token() + i / 2 * 8 + lane % 4 * 2 + i % 2] = own;
}

template <class T, int kTokens>
__device__ __forceinline__ void tell_tile(const TileProduct& b, int64_t tile,
                                          const BestSums<T, kTokens>& of_warp,
                                          BestPart<float> (*groups)[kTokens]) {
  tell_warp<T, kTokens>(b.of, tile, of_warp, groups);
  __syncthreads();  // (they are written again behind the barrier of another stage)
  const int token = static_cast<int>(threadIdx.x);
  const int64_t row = int64_t{blockIdx.y} * kTokens + token;
  if (token >= kTokens || row >= b.of.product.rows) return;
  static_assert(tiles::kFeatureGroups == 4);
  b.parts[tile * b.of.product.rows + row] = joined(joined(groups[0][token], groups[1][token]),
                                                   joined(groups[2][token], groups[3][token]));
}

// Of a multiprocessor, at most.
template <int kTokens>
constexpr int kBestBlocks = kTokens == 64 ? 1 : 2;

template <class T, int kTokens>
__global__ void __launch_bounds__(tiles::kThreads, kBestBlocks<kTokens>)
    best_tiles_kernel(const __grid_constant__ TileProduct b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const int steps = static_cast<int>(tiles::steps_of(b.of.product.k));
  prefetch_stages(b, steps);
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  auto* stages = reinterpret_cast<BestStage*>(shared);
  auto* groups =
      reinterpret_cast<BestPart<float>(*)[kTokens]>(shared + tiles::kStages * sizeof(BestStage));
  T* rows = reinterpret_cast<T*>(groups + tiles::kFeatureGroups);
  for (int i = 0; i < min(tiles::kStages - 1, steps); ++i) load_rows<T, kTokens>(b.of, rows, i);
  cp_async_commit();
  cp_async_wait<0>();
  tiles::Ring<kBestFeatures> ring(stages);
  BestPlace ahead(tiles::kStages - 1, steps);
  for (int64_t tile = blockIdx.x; tile < b.tiles; tile += gridDim.x) {
    BestSums<T, kTokens> of_warp;
    for (int step = 0; step < steps; ++step) {
      const BestStage& stage = ring.next([&](BestStage& free) {
        if (ahead.tile >= b.tiles) return;
        tiles::load_stage(b.of.product, free, ahead.tile * kBestFeatures, ahead.step);
        if (ahead.tile == blockIdx.x) load_rows<T, kTokens>(b.of, rows, ahead.step);
        if (++ahead.step < steps) return;
        ahead.step = 0;
        ahead.tile += gridDim.x;
      });
      of_warp.add(stage, rows + step * tiles::kStep, tiles::row_pitch(b.of.product.k));
    }
    tell_tile<T, kTokens>(b, tile, of_warp, groups);
  }
#else
  wait_for_earlier_kernels();
  __trap();  // best_tile_rows says so
#endif
}

// A block for each row.
__global__ void __launch_bounds__(kJoinThreads)
    join_tiles_kernel(const __grid_constant__ TileProduct b) {
  wait_for_earlier_kernels();
  __shared__ BestPart<double> of_warps[kJoinThreads / kWarpSize];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x, rows = b.of.product.rows;
  BestPart<double> all = no_part<double>();
  for (int64_t tile = thread; tile < b.tiles; tile += kJoinThreads)
    all = joined(all, widened(b.parts[tile * rows + row]));
  all = joined_over(all, kWarpSize);
  if (thread % kWarpSize == 0) of_warps[thread / kWarpSize] = all;
  __syncthreads();
  if (thread != 0) return;
  for (int w = 1; w < kJoinThreads / kWarpSize; ++w) all = joined(all, of_warps[w]);
  tell(b.of.answer, row, all);
}

// The fewest tokens of a block that are all rows, where a block has room for that many.
int tokens_of(int64_t rows, int64_t k, size_t shared) {
  int tokens = rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
  while (tokens >= 16 && shared_bytes(k, tokens) > shared) tokens /= 2;
  return tokens >= 16 ? tokens : 0;
}

template <class T, int kTokens>
void launch_best_tiles(const CudaBackend& backend, const TileProduct& b) {
  const size_t bytes = shared_bytes(b.of.product.k, kTokens);
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(best_tiles_kernel<T, kTokens>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)));
  const int64_t groups = ceil_div(b.of.product.rows, kTokens);
  // As many as run at once.
  const int64_t blocks =
      std::clamp<int64_t>(backend.blocks_at_once(bytes, kBestBlocks<kTokens>) / groups, 1, b.tiles);
  TANDEM_LAUNCH((best_tiles_kernel<T, kTokens>),
                dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(groups)), tiles::kThreads,
                bytes, backend.launches(), b);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launch_tokens(const CudaBackend& backend, const TileProduct& b) {
  switch (tokens_of(b.of.product.rows, b.of.product.k, backend.shared_limit())) {
    case 16: return launch_best_tiles<T, 16>(backend, b);
    case 32: return launch_best_tiles<T, 32>(backend, b);
    case 64: return launch_best_tiles<T, 64>(backend, b);
    default: TANDEM_CHECK(false, "more features than best_tiles has room for");
  }
}

}  // namespace

int best_tile_rows(DType type, int64_t k, int capability, size_t shared) {
  if (type == DType::kF32 || capability < 80 || k % tiles::kPiece != 0 || k == 0) return 0;
  return std::min(kMostBestTileRows, kMostGroups * tokens_of(kMostBestTileRows, k, shared));
}

void best_tiles(Context& ctx, const BestProduct& of) {
  const WeightProduct& p = of.product;
  TANDEM_CHECK(aligned_16(p.x, 2 * p.x_stride) && aligned_16(p.weight, p.pitch),
               "rows that do not begin at multiples of 16 bytes");
  const auto& backend = static_cast<const CudaBackend&>(ctx.backend());
  const int64_t tiles = ceil_div(p.n, kBestFeatures);
  const Tensor parts =
      ctx.make({tiles * p.rows * static_cast<int64_t>(sizeof(BestPart<float>) / sizeof(int32_t))},
               DType::kI32);
  const TileProduct b{of, tiles, static_cast<BestPart<float>*>(parts.raw())};
  if (p.type == DType::kF16) {
    launch_tokens<__half>(backend, b);
  } else {
    TANDEM_CHECK(p.type == DType::kBF16, "best_tiles of this type");
    launch_tokens<__nv_bfloat16>(backend, b);
  }
  TANDEM_LAUNCH(join_tiles_kernel, static_cast<unsigned>(p.rows), kJoinThreads, 0,
                backend.launches(), b);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

}  // namespace tandem::cuda
