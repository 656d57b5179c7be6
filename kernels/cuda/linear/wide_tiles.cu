// out = activation(W x + bias) of many rows on Hopper's tensor cores (wgmma).
//
// A block stays on its multiprocessor and computes one tile after another, 192 rows by 128
// features. Its warp groups have roles. One thread of the last group asks for tiles of x and W, 64
// elements of k at a time, in a ring of four stages (tensor_copy). The first two groups take turns:
// one multiplies a whole tile while the other one finishes its own. So bias, activation and stores
// hide behind the other group's product.
//
// Two blocks of a cluster have the same rows and neighbouring features. Each asks for half of the
// rows' tile, for both. So a multiprocessor takes 28 KiB of a stage's 40 from the L2 cache.
//
// A group's turn begins when the other one has asked for its last product. Stages are then waited
// for in the order in which they come.
//
// Sums add the elements of k in their order, whatever the tile. So a row's sums depend neither on
// the other rows nor on their number.
#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/hardware/cluster.cuh"
#include "kernels/cuda/hardware/tensor_copy.cuh"
#include "kernels/cuda/hardware/warpgroup.cuh"
#include "kernels/cuda/linear/wide_epilogue.cuh"
#include "kernels/cuda/linear/wide_tiles.h"

namespace tandem::cuda {
namespace {

constexpr int kBands = 3, kBandRows = 64;  // of a tile: an instruction has 64 rows
constexpr int kWideRows = kBands * kBandRows, kWideFeatures = 128, kWideStages = 4;
constexpr int kGroups = 2, kWideThreads = (kGroups + 1) * kGroupThreads;
constexpr int kGroupWarps = kGroupThreads / kWarpSize;
// Of each thread that multiplies (192 are sums), and of the others: 64,512 in a block, as many as
// it is launched with.
constexpr int kRegisters = 240, kFewRegisters = 24;
// Tiles of rows that share weights in the L2 cache: those of blocks that run at the same time.
constexpr int kNearTiles = 8;
constexpr int kMostBlocksOfCluster = 2;

struct WideStage {
  alignas(kTileAlignment) unsigned char rows[kWideRows * kTileRowBytes];
  alignas(kTileAlignment) unsigned char features[kWideFeatures * kTileRowBytes];
};

struct WideShared {
  WideStage stages[kWideStages];
  float sums[kGroups * kGroupWarps][16 * kWideFeatures];  // of a warp, of a band
  CopyBarrier full[kWideStages], free[kWideStages];
  CopyBarrier turn[kGroups];  // the group's turn has come
};
constexpr size_t kWideSharedBytes = sizeof(WideShared) + kTileAlignment - 128;
static_assert(kWideSharedBytes <= 227 * 1024);

__device__ __forceinline__ WideShared& shared_of_block() {
  TANDEM_DYNAMIC_SHARED(memory);
  const auto gap = -reinterpret_cast<uintptr_t>(memory) % kTileAlignment;
  return *reinterpret_cast<WideShared*>(memory + gap);
}

// The product, and its tiles, in sets of as many neighbours as a cluster has blocks. A cluster has
// every clusters-th set, and a block its own tile of each.
struct Work {
  WeightProduct p;
  int of_rows, of_features;  // sets of tiles
  int steps;                 // of a tile
  int clusters;
  __host__ __device__ __forceinline__ int sets() const { return of_rows * of_features; }
};
template <int kBlocks>
__device__ __forceinline__ int rank() {
  return static_cast<int>(blockIdx.x % kBlocks);
}
template <int kBlocks>
__device__ __forceinline__ int first_set() {
  return static_cast<int>(blockIdx.x / kBlocks);
}
struct WidePlace {
  int row, feature;
};
template <int kBlocks>
__device__ __forceinline__ WidePlace place_of(const Work& work, int set) {
  const int near = kNearTiles * work.of_features, first = set / near * kNearTiles;
  const int rows = min(kNearTiles, work.of_rows - first), within = set % near;
  return {(first + within % rows) * kWideRows,
          (within / rows * kBlocks + rank<kBlocks>()) * kWideFeatures};
}

// Steps of all of a block's tiles have numbers, from 0 on. A number says the stage of the ring, and
// the parity of the phase in which the stage has that step.
__device__ __forceinline__ uint32_t stage_of(uint32_t step) { return step % kWideStages; }
__device__ __forceinline__ uint32_t parity_of(uint32_t step) { return step / kWideStages % 2; }

template <int kBlocks>
__device__ __forceinline__ void make_barriers(WideShared& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < kWideStages; ++i) {
      make_copy_barrier(&shared.full[i], 1);
      make_copy_barrier(&shared.free[i], kGroupWarps * kBlocks);
    }
    for (int i = 0; i < kGroups; ++i) make_copy_barrier(&shared.turn[i], kGroupWarps);
    copy_barriers_made();
  }
  if constexpr (kBlocks > 1) {
    cluster_barrier();
  } else {
    __syncthreads();
  }
}

// One arrival for each warp of a group. What the others of the warp did is done.
__device__ __forceinline__ void arrive_as_warp(CopyBarrier* barrier) {
  __syncwarp();
  if (threadIdx.x % kWarpSize == 0) arrive(barrier);
}

// The same in all blocks of the cluster: the stage is free in this one.
template <int kBlocks>
__device__ __forceinline__ void give_stage(CopyBarrier* free) {
  if constexpr (kBlocks == 1) return arrive_as_warp(free);
  __syncwarp();
  const unsigned lane = threadIdx.x % kWarpSize;
  if (lane < kBlocks) arrive_in_block(free, lane);
}

// By one thread.
template <int kBlocks>
__device__ __forceinline__ void send(const Work& work, const TensorMap& rows,
                                     const TensorMap& features, WideShared& shared) {
  uint32_t step = 0;
  for (int set = first_set<kBlocks>(); set < work.sets(); set += work.clusters) {
    const WidePlace place = place_of<kBlocks>(work, set);
    for (int i = 0; i < work.steps; ++i, ++step) {
      WideStage& stage = shared.stages[stage_of(step)];
      CopyBarrier* full = &shared.full[stage_of(step)];
      wait_for_phase(&shared.free[stage_of(step)], parity_of(step) ^ 1);
      arrive_and_expect(full, sizeof(WideStage));
      if constexpr (kBlocks == 1) {
        tensor_copy(stage.rows, rows, place.row, i * kTileK, full);
      } else {
        const int part = kWideRows / kBlocks * rank<kBlocks>();
        tensor_copy_to_blocks(stage.rows + part * kTileRowBytes, rows, place.row + part, i * kTileK,
                              full, kBlocks);
      }
      tensor_copy(stage.features, features, place.feature, i * kTileK, full);
    }
  }
}

// The sums of a tile, by a group; `step`: the number of its first. Lets the other group begin.
template <class T, int kBlocks>
__device__ __forceinline__ void multiply_tile(WideShared& shared, uint32_t step, int count,
                                              CopyBarrier* next_turn, float (&sums)[kBands][64]) {
  const auto pin_all = [&] {
#pragma unroll
    for (int band = 0; band < kBands; ++band) pin(sums[band]);
  };
  for (int i = 0; i < count; ++i, ++step) {
    const WideStage& stage = shared.stages[stage_of(step)];
    wait_for_phase(&shared.full[stage_of(step)], parity_of(step));
    const uint64_t rows = tile_descriptor(stage.rows), features = tile_descriptor(stage.features);
    pin_all();
    products_fence();
#pragma unroll
    for (int k = 0; k < kTileK / 16; ++k)
#pragma unroll
      for (int band = 0; band < kBands; ++band)
        multiply_m64n128k16<T>(sums[band], later_in_k(later_rows(rows, band * kBandRows), k),
                               later_in_k(features, k), k > 0 || i > 0);
    products_commit();
    pin_all();
    products_wait<1>();
    if (i > 0) give_stage<kBlocks>(&shared.free[stage_of(step - 1)]);
  }
  arrive_as_warp(next_turn);
  products_wait<0>();
  pin_all();
  give_stage<kBlocks>(&shared.free[stage_of(step - 1)]);
}

// Where a warp's sums of 16 rows lie: 8 neighbouring features of a row are two fours. Rows and
// features move so that neither writes nor reads of several lanes meet in a bank. What depends on
// `eight` and `half` changes other bits than the row's, so one place gives all of a row.
__device__ __forceinline__ int place_of_four(int row, int eight, int half) {
  return (row * kWideFeatures + row % 4 * 8) ^ (eight * 8 + (half ^ eight / 4 % 2) * 4);
}

__device__ __forceinline__ void store_band(const float (&sums)[64], float* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, pair = lane % 4;
  int own = place_of_four(lane / 4, 0, pair / 2) + pair % 2 * 2;
  pin(own);  // the places that follow are computed again for each band: they would fill registers
#pragma unroll
  for (int eight = 0; eight < kWideFeatures / 8; ++eight)
#pragma unroll
    for (int below = 0; below < 2; ++below)
      *reinterpret_cast<float2*>(to + (own ^ place_of_four(0, eight, 0)) +
                                 below * 8 * kWideFeatures) =
          make_float2(sums[4 * eight + 2 * below], sums[4 * eight + 2 * below + 1]);
}

template <class T, bool kUsual>
__device__ __forceinline__ void finish_tile(const WeightProduct& p, WidePlace place,
                                            const float (&sums)[kBands][64], float* of_warp) {
  constexpr int kEights = kWideFeatures / 8, kAtOnce = kWarpSize / kEights;  // rows
  int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  pin(lane);  // what depends on it is not kept while sums fill the registers
  const int eight = lane % kEights;
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / kWarpSize;
  store_band(sums[0], of_warp);
  __syncwarp();  // (The bias is read behind it, when there are registers for that.)
  const wide::Finisher<T> finish(p.epilogue, place.feature + eight * 8, p.n);
#pragma unroll
  for (int band = 0; band < kBands; ++band) {
    const int64_t first = place.row + band * kBandRows + warp * 16;
    wide::with_function<kUsual>(p.epilogue.activation, [&](const auto& function) {
#pragma unroll 1
      for (int row = lane / kEights; row < 16 && first + row < p.rows; row += kAtOnce) {
        const auto four = [&](int half) {
          return *reinterpret_cast<const float4*>(of_warp + place_of_four(row, eight, half));
        };
        finish(function, first + row, four(0), four(1));
      }
    });
    __syncwarp();
    if (band + 1 < kBands) store_band(sums[band + 1], of_warp);
    __syncwarp();
  }
}

// By a group: every second tile of the block.
template <class T, bool kUsual, int kBlocks>
__device__ __forceinline__ void multiply_and_finish(const Work& work, WideShared& shared) {
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  for (int before = group;; before += kGroups) {  // tiles of the block
    const int set = first_set<kBlocks>() + before * work.clusters;
    if (set >= work.sets()) break;
    // (The first group's first turn is there from the start: the phase before the first one.)
    wait_for_phase(&shared.turn[group], static_cast<uint32_t>(before / kGroups + group + 1) % 2);
    float sums[kBands][64];
    multiply_tile<T, kBlocks>(shared, static_cast<uint32_t>(before * work.steps), work.steps,
                              &shared.turn[group ^ 1], sums);
    finish_tile<T, kUsual>(work.p, place_of<kBlocks>(work, set), sums,
                           shared.sums[threadIdx.x / kWarpSize]);
  }
}

template <class T, bool kUsual, int kBlocks>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_tiles_kernel(const __grid_constant__ Work work, const __grid_constant__ TensorMap rows,
                      const __grid_constant__ TensorMap features) {
  wait_for_earlier_kernels();
#if TANDEM_WARP_GROUP_PRODUCTS
  WideShared& shared = shared_of_block();
  make_barriers<kBlocks>(shared);
  if (threadIdx.x < kGroups * kGroupThreads) {
    take_registers<kRegisters>();
    multiply_and_finish<T, kUsual, kBlocks>(work, shared);
  } else {
    give_registers<kFewRegisters>();
    if (threadIdx.x == kGroups * kGroupThreads) send<kBlocks>(work, rows, features, shared);
    __syncwarp();
  }
  if constexpr (kBlocks > 1) cluster_barrier();  // others copy here, and arrive
#else
  __trap();  // has_products says so
#endif
}

template <class T, bool kUsual, int kBlocks>
bool launch_wide_tiles(const WeightProduct& p, int multiprocessors, LaunchStream stream) {
  const auto kernel = wide_tiles_kernel<T, kUsual, kBlocks>;
  static const bool is_compiled = has_products(kernel);
  TensorMap rows, features;
  const bool bf16 = p.type == DType::kBF16;
  const int64_t pitch = p.x_stride * 2;
  if (!is_compiled || !make_tensor_map(rows, p.x, bf16, p.rows, p.k, pitch, kWideRows / kBlocks) ||
      !make_tensor_map(features, p.weight, bf16, p.n, p.k, p.pitch, kWideFeatures))
    return false;
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(kWideSharedBytes)));
  Work work{p, static_cast<int>(ceil_div(p.rows, kWideRows)),
            static_cast<int>(ceil_div(p.n, kWideFeatures * kBlocks)),
            static_cast<int>(ceil_div(p.k, kTileK)), 0};
  work.clusters = std::min(work.sets(), multiprocessors / kBlocks);
  const int blocks = work.clusters * kBlocks;
  TANDEM_LAUNCH_CLUSTERS((wide_tiles_kernel<T, kUsual, kBlocks>), static_cast<unsigned>(blocks),
                         kWideThreads, kBlocks, kWideSharedBytes, stream, work, rows, features);
  TANDEM_CUDA_CHECK(cudaGetLastError());
  return true;
}

template <class T, bool kUsual>
bool launch_blocks(const WeightProduct& p, int multiprocessors, LaunchStream stream) {
  return p.n > kWideFeatures && multiprocessors >= kMostBlocksOfCluster
             ? launch_wide_tiles<T, kUsual, kMostBlocksOfCluster>(p, multiprocessors, stream)
             : launch_wide_tiles<T, kUsual, 1>(p, multiprocessors, stream);
}

template <class T>
bool launch_for(const WeightProduct& p, int multiprocessors, LaunchStream stream) {
  return wide::is_usual(p.epilogue.activation)
             ? launch_blocks<T, true>(p, multiprocessors, stream)
             : launch_blocks<T, false>(p, multiprocessors, stream);
}

}  // namespace

bool takes_wide_tiles(const WeightProduct& p, int capability) {
  const Epilogue& e = p.epilogue;
  return p.quantization == Quantization::kNone && p.type != DType::kF32 && capability / 10 == 9 &&
         e.scales == nullptr && e.row_scales == nullptr && e.activation != Activation::kNone &&
         e.activation != Activation::kRelu && p.k > 0 && p.k % 8 == 0 &&
         aligned_16(p.x, 2 * p.x_stride) && aligned_16(p.weight, p.pitch);
}

bool wide_tiles(const WeightProduct& p, int multiprocessors, LaunchStream stream) {
  if (p.type == DType::kF16) return launch_for<__half>(p, multiprocessors, stream);
  TANDEM_CHECK(p.type == DType::kBF16, "wide_tiles of this type");
  return launch_for<__nv_bfloat16>(p, multiprocessors, stream);
}

}  // namespace tandem::cuda
