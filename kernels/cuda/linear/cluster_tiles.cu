// out = activation(W x + bias) of any number of rows on tensor cores, by clusters.
//
// A block has 64 features, 16 to 128 tokens and a part of k; the parts are the blocks of a cluster.
// Weights are read once for all tokens of a block, and asked for before the kernels in front have
// ended: of a step's products as many as the ring holds are often all. Rows follow in a ring of
// their own. Then each block finishes a part of the tokens: it reads their sums from the shared
// memory of all blocks, and adds them in the order of k.
//
// The parts depend on n and k alone, and within a part sums are added in the order of k. So a row's
// sums depend neither on the other rows nor on their number.
#include "kernels/cuda/hardware/cluster.cuh"
#include "kernels/cuda/linear/cluster_tiles.h"
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/tile_stages.cuh"

namespace tandem::cuda {
namespace {

constexpr int kClusterFeatures = 64;
// Of weights 48 KiB. Of rows one is read while two are on their way.
constexpr int kWeightStages = 6, kRowStages = 3;
// Floats of a token's sums, such that lanes write those of several tokens to different banks.
constexpr int kClusterSumPitch = kClusterFeatures + 4;

template <int kTokens>
struct Rings {
  tiles::Stage<kClusterFeatures> weights[kWeightStages];
  tiles::Stage<kTokens> rows[kRowStages];
};

template <int kTokens>
union ClusterShared {
  Rings<kTokens> rings;
  float sums[kTokens][kClusterSumPitch];  // of the block's part, when it has no more to read
};
// Two blocks on a multiprocessor, and one on a device with 99 KiB for it.
static_assert(sizeof(ClusterShared<128>) <= 96 * 1024);

// The block's part of k, in steps.
struct ClusterPart {
  int begin, count;
  __device__ __forceinline__ explicit ClusterPart(int64_t k) {
    const int steps = static_cast<int>(tiles::steps_of(k)), rank = static_cast<int>(blockIdx.x),
              parts = static_cast<int>(gridDim.x);
    begin = steps * rank / parts;
    count = steps * (rank + 1) / parts - begin;
  }
};

template <class T, int kTokens>
using ClusterSums = tiles::WarpSums<T, kClusterFeatures, kTokens>;

// The block's features.
__device__ __forceinline__ int64_t first_feature() {
  return int64_t{blockIdx.y} * kClusterFeatures;
}

// The first stages of the weight, which is constant, are under way before anything is waited for.
template <int kTokens>
__device__ __forceinline__ void prefetch_weights(const WeightProduct& p) {
  TANDEM_DYNAMIC_SHARED(shared);
  auto& rings = *reinterpret_cast<Rings<kTokens>*>(shared);
  const ClusterPart part(p.k);
  for (int i = 0; i < kWeightStages && i < part.count; ++i)
    tiles::load_stage(p, rings.weights[i], first_feature(), part.begin + i);
  cp_async_commit();
}

template <class T, int kTokens>
__device__ __forceinline__ void add_part(const WeightProduct& p, const ClusterPart& part,
                                         int64_t feature, int64_t token, Rings<kTokens>& rings,
                                         ClusterSums<T, kTokens>& of_warp) {
  const auto load_rows = [&](int i) {
    if (i < part.count)
      tiles::load_stage(p.x, p.rows, p.x_stride * 2, p.k, rings.rows[i % kRowStages], token,
                        part.begin + i);
  };
  for (int i = 0; i < kRowStages - 1; ++i) {
    load_rows(i);
    cp_async_commit();
  }
  for (int i = 0; i < part.count; ++i) {
    cp_async_wait<kRowStages - 2>();  // (weights are always of an earlier group)
    __syncthreads();
    // Now nobody reads the stages of the step before any more.
    const int weights = i - 1 + kWeightStages;
    if (i > 0 && weights < part.count)
      tiles::load_stage(p, rings.weights[weights % kWeightStages], feature, part.begin + weights);
    load_rows(i + kRowStages - 1);
    cp_async_commit();
    const auto& rows = rings.rows[i % kRowStages].bytes;
    of_warp.add(rings.weights[i % kWeightStages], reinterpret_cast<const T*>(rows),
                tiles::kStep / 2, kTokens * tiles::kStep / 2);
  }
}

template <class T, int kTokens>
__device__ __forceinline__ void store_sums(const ClusterSums<T, kTokens>& of_warp,
                                           float (*sums)[kClusterSumPitch]) {
  using Sums = ClusterSums<T, kTokens>;
  static_assert(Sums::kMmas == 1);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int t = 0; t < Sums::kOwn / 8; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[Sums::first_token() + t * 8 + lane % 4 * 2 + i % 2]
          [Sums::first_feature() + i / 2 * 8 + lane / 4] = of_warp.sums[0][t][i];
}

// Those of the block's share of the tokens: the sums of all parts.
template <class T, int kTokens>
__device__ __forceinline__ void finish_share(const WeightProduct& p, int64_t feature, int64_t token,
                                             const float (*sums)[kClusterSumPitch]) {
  constexpr int kMostParts = 8, kFours = kClusterFeatures / 4;
  const int parts = static_cast<int>(gridDim.x), share = kTokens / parts;
  for (int i = static_cast<int>(threadIdx.x); i < share * kFours; i += tiles::kThreads) {
    const int own = static_cast<int>(blockIdx.x) * share + i / kFours, of_four = i % kFours * 4;
    const int64_t row = token + own, at = feature + of_four;
    if (row >= p.rows || at >= p.n) continue;
    const auto* four = reinterpret_cast<const float4*>(&sums[own][of_four]);
    float4 all = *four;
    if (parts > 1) {
      float4 of[kMostParts];
#pragma unroll
      for (int r = 0; r < kMostParts; ++r)
        if (r < parts) of[r] = load_from_block(four, static_cast<unsigned>(r));
      all = of[0];
#pragma unroll
      for (int r = 1; r < kMostParts; ++r) {
        if (r >= parts) break;
        all.x += of[r].x, all.y += of[r].y, all.z += of[r].z, all.w += of[r].w;
      }
    }
    const float values[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (at + j < p.n) finish<T>(p.epilogue, row, at + j, values[j]);
  }
}

template <class T, int kTokens>
__global__ void __launch_bounds__(tiles::kThreads, 2)
    cluster_tiles_kernel(const __grid_constant__ WeightProduct p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  prefetch_weights<kTokens>(p);
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(memory);
  auto& shared = *reinterpret_cast<ClusterShared<kTokens>*>(memory);
  const int64_t feature = first_feature(), token = int64_t{blockIdx.z} * kTokens;
  ClusterSums<T, kTokens> of_warp;
  add_part(p, ClusterPart(p.k), feature, token, shared.rings, of_warp);
  cp_async_wait<0>();
  __syncthreads();
  store_sums(of_warp, shared.sums);
  if (gridDim.x > 1) {
    cluster_barrier();
  } else {
    __syncthreads();
  }
  finish_share<T, kTokens>(p, feature, token, shared.sums);
  if (gridDim.x > 1) cluster_barrier();  // others read this block's sums
#else
  wait_for_earlier_kernels();
  __trap();  // takes_cluster_tiles says so
#endif
}

template <class T, int kTokens>
void launch_cluster_tiles(const WeightProduct& p, int parts, LaunchStream stream) {
  constexpr size_t kBytes = sizeof(ClusterShared<kTokens>);
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(cluster_tiles_kernel<T, kTokens>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(kBytes)));
  const dim3 grid(static_cast<unsigned>(parts),
                  static_cast<unsigned>(ceil_div(p.n, kClusterFeatures)),
                  static_cast<unsigned>(ceil_div(p.rows, kTokens)));
  TANDEM_LAUNCH_CLUSTERS((cluster_tiles_kernel<T, kTokens>), grid, tiles::kThreads,
                         static_cast<unsigned>(parts), kBytes, stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class T>
void launch_tokens(const WeightProduct& p, int parts, LaunchStream stream) {
  if (p.rows <= 16) return launch_cluster_tiles<T, 16>(p, parts, stream);
  if (p.rows <= 32) return launch_cluster_tiles<T, 32>(p, parts, stream);
  if (p.rows <= 64) return launch_cluster_tiles<T, 64>(p, parts, stream);
  launch_cluster_tiles<T, 128>(p, parts, stream);
}

}  // namespace

int cluster_parts(int64_t n, int64_t k, int capability) {
  constexpr int64_t kManyBlocks = 2 * 132;
  const int64_t tiles = ceil_div(n, kClusterFeatures), steps = tiles::steps_of(k);
  int parts = 1;
  while (capability >= 90 && parts < 8 && 2 * parts * tiles <= kManyBlocks && 4 * parts <= steps)
    parts *= 2;
  return parts;
}

bool takes_cluster_tiles(const WeightProduct& p, int capability) {
  return p.quantization == Quantization::kNone && p.type != DType::kF32 && capability >= 80 &&
         p.k > 0 && p.k % tiles::kPiece == 0 && aligned_16(p.x, 2 * p.x_stride) &&
         aligned_16(p.weight, p.pitch);
}

void cluster_tiles(const WeightProduct& p, int capability, LaunchStream stream) {
  const int parts = cluster_parts(p.n, p.k, capability);
  if (p.type == DType::kF16) return launch_tokens<__half>(p, parts, stream);
  TANDEM_CHECK(p.type == DType::kBF16, "cluster_tiles of this type");
  launch_tokens<__nv_bfloat16>(p, parts, stream);
}

}  // namespace tandem::cuda
