// out = activation(W x + bias) of some rows on tensor cores; operands go straight from memory to
// the registers that mma reads.
//
// A block has some features and tokens, and all of k, of which each warp takes a part. A lane loads
// 16 bytes of a feature, or of a token: 8 neighbours of k, which are two mmas' (which of k's
// elements an mma multiplies is free as long as both sides agree). A warp so uses each weight and
// each element of x once, and needs nobody until the warps' sums are added, in the order of k. The
// first weights are asked for before the kernels in front have ended.
//
// The parts of k depend on k alone, so a row's sums depend neither on the other rows nor on the
// block's features and tokens.
#include <algorithm>

#include "kernels/cuda/linear/direct_tiles.h"
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {
namespace {

constexpr int kDirectStep = 32;  // elements of k: 16 bytes for each of a group's 4 lanes
constexpr int kDirectPiece = 8;

__host__ __device__ constexpr int64_t steps_of(int64_t k) {
  return (k + kDirectStep - 1) / kDirectStep;
}

// Warps of a block: as many as give each about 128 elements of k or more.
constexpr int64_t kLongProduct = 4096;
constexpr int warps_of(int64_t k) { return k >= kLongProduct ? 16 : 8; }

// Floats of a token in shared memory: sums of 16 features, such that the lanes that write them do
// so to different banks.
constexpr int kDirectSumPitch = 20;

// What a block does. kHeld: steps that are under way while as many are multiplied.
template <int kFeatures_, int kTokens_, int kWarps_, int kHeld_>
struct DirectShape {
  static constexpr int kFeatures = kFeatures_, kTokens = kTokens_, kWarps = kWarps_, kHeld = kHeld_;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMmas = kFeatures / 16, kEights = kTokens / 8;
  static constexpr size_t kShared = size_t{kWarps} * kTokens * kDirectSumPitch * sizeof(float);
};

// What a lane has of some steps.
template <class T, class S>
struct Chunk {
  uint4 weights[S::kHeld][S::kMmas][2], rows[S::kHeld][S::kEights];

  static __device__ __forceinline__ int64_t place(int64_t step) {
    return step * kDirectStep + static_cast<int>(threadIdx.x) % 4 * kDirectPiece;
  }
  static __device__ __forceinline__ int group() {
    return static_cast<int>(threadIdx.x) % kWarpSize / 4;
  }
  // (Constant, so it may be asked for before the wait.)
  __device__ __forceinline__ void load_weights(const WeightProduct& p, int64_t feature,
                                               int64_t step, int64_t end) {
    const char* base = static_cast<const char*>(p.weight);
#pragma unroll
    for (int i = 0; i < S::kHeld; ++i) {
      const int64_t k = place(step + i);
      const bool inside = step + i < end && k < p.k;
#pragma unroll
      for (int m = 0; m < S::kMmas; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = feature + m * 16 + half * 8 + group();
          weights[i][m][half] = uint4{0, 0, 0, 0};
          if (inside && row < p.n)
            weights[i][m][half] =
                __ldg(reinterpret_cast<const uint4*>(base + row * p.pitch + k * 2));
        }
    }
  }
  __device__ __forceinline__ void load_rows(const WeightProduct& p, int64_t token, int64_t step,
                                            int64_t end) {
    const T* x = static_cast<const T*>(p.x);
#pragma unroll
    for (int i = 0; i < S::kHeld; ++i) {
      const int64_t k = place(step + i);
      const bool inside = step + i < end && k < p.k;
#pragma unroll
      for (int t = 0; t < S::kEights; ++t) {
        const int64_t row = token + t * 8 + group();
        rows[i][t] = uint4{0, 0, 0, 0};
        if (inside && row < p.rows) rows[i][t] = load_as<uint4>(x + row * p.x_stride + k);
      }
    }
  }
};

// Of one warp. Of each 16 features (`m`) and 8 tokens (`t`) a lane has features lane / 4 and
// lane / 4 + 8, and tokens lane % 4 * 2 and the next.
template <class T, class S>
struct DirectSums {
  float sums[S::kMmas][S::kEights][4] = {};

  __device__ __forceinline__ void add(const Chunk<T, S>& chunk) {
#pragma unroll
    for (int i = 0; i < S::kHeld; ++i)
#pragma unroll
      for (int m = 0; m < S::kMmas; ++m) {
        const uint4 low = chunk.weights[i][m][0], high = chunk.weights[i][m][1];
        const uint32_t first[4] = {low.x, high.x, low.y, high.y};
        const uint32_t second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
        for (int t = 0; t < S::kEights; ++t) {
          const uint4 x = chunk.rows[i][t];
          mma_m16n8k16<T>(sums[m][t], first, {x.x, x.y});
          mma_m16n8k16<T>(sums[m][t], second, {x.z, x.w});
        }
      }
  }

  // Those of 16 features.
  __device__ __forceinline__ void store(int m, float* to) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int t = 0; t < S::kEights; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[(t * 8 + lane % 4 * 2 + i % 2) * kDirectSumPitch + i / 2 * 8 + lane / 4] = sums[m][t][i];
  }
};

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads)
    direct_tiles_kernel(const __grid_constant__ WeightProduct p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  // Blocks of the same features are neighbours: the second one's weights come from the L2 cache.
  const int64_t token = int64_t{blockIdx.x} * S::kTokens;
  const int64_t feature = int64_t{blockIdx.y} * S::kFeatures;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t steps = steps_of(p.k);
  const int64_t begin = steps * warp / S::kWarps, end = steps * (warp + 1) / S::kWarps;
  Chunk<T, S> now, next;
  now.load_weights(p, feature, begin, end);
  wait_for_earlier_kernels();
  now.load_rows(p, token, begin, end);
  DirectSums<T, S> of_warp;
  for (int64_t step = begin; step < end; step += 2 * S::kHeld) {
    const int64_t second = step + S::kHeld, third = second + S::kHeld;
    if (second < end) {
      next.load_weights(p, feature, second, end);
      next.load_rows(p, token, second, end);
    }
    of_warp.add(now);
    if (second >= end) break;
    if (third < end) {
      now.load_weights(p, feature, third, end);
      now.load_rows(p, token, third, end);
    }
    of_warp.add(next);
  }
  TANDEM_DYNAMIC_SHARED(shared);
  auto* sums = reinterpret_cast<float*>(shared);
  constexpr int kOfWarp = S::kTokens * kDirectSumPitch;
#pragma unroll
  for (int m = 0; m < S::kMmas; ++m) {
    if (m > 0) __syncthreads();
    of_warp.store(m, sums + warp * kOfWarp);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < S::kTokens * 16; i += S::kThreads) {
      const int64_t row = token + i / 16, at = feature + m * 16 + i % 16;
      if (row >= p.rows || at >= p.n) continue;
      const float* own = sums + i / 16 * kDirectSumPitch + i % 16;
      float sum = own[0];
#pragma unroll
      for (int w = 1; w < S::kWarps; ++w) sum += own[w * kOfWarp];
      finish<T>(p.epilogue, row, at, sum);
    }
  }
#else
  wait_for_earlier_kernels();
  __trap();  // takes_direct_tiles says so
#endif
}

template <class T, class S>
void launch_direct_tiles(const WeightProduct& p, LaunchStream stream) {
  if (S::kShared > 48 * 1024)
    TANDEM_CUDA_CHECK(cudaFuncSetAttribute(direct_tiles_kernel<T, S>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(S::kShared)));
  const dim3 grid(static_cast<unsigned>(ceil_div(p.rows, S::kTokens)),
                  static_cast<unsigned>(ceil_div(p.n, S::kFeatures)));
  TANDEM_LAUNCH((direct_tiles_kernel<T, S>), grid, S::kThreads, S::kShared, stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

// Fewer tokens of a block are more blocks, more of them fewer reads of x: two for each
// multiprocessor of a large GPU are enough.
constexpr int64_t kManyBlocks = 132;
// Features above which blocks of more features are still enough.
constexpr int64_t kManyFeatures = 2048;

template <class T>
void launch_shape(const WeightProduct& p, LaunchStream stream) {
  const int64_t rows = p.rows;
  if (warps_of(p.k) == 16)
    return rows <= 16 ? launch_direct_tiles<T, DirectShape<16, 16, 16, 2>>(p, stream)
                      : launch_direct_tiles<T, DirectShape<16, 32, 16, 1>>(p, stream);
  if (p.n <= kManyFeatures) {
    if (rows <= 16) return launch_direct_tiles<T, DirectShape<16, 16, 8, 4>>(p, stream);
    if (rows <= 32 || ceil_div(p.n, 16) * ceil_div(rows, 32) <= kManyBlocks)
      return launch_direct_tiles<T, DirectShape<16, 32, 8, 4>>(p, stream);
    return launch_direct_tiles<T, DirectShape<16, 64, 8, 2>>(p, stream);
  }
  if (rows <= 16) return launch_direct_tiles<T, DirectShape<32, 16, 8, 4>>(p, stream);
  if (rows <= 32) return launch_direct_tiles<T, DirectShape<32, 32, 8, 2>>(p, stream);
  launch_direct_tiles<T, DirectShape<32, 64, 8, 1>>(p, stream);
}

}  // namespace

bool takes_direct_tiles(const WeightProduct& p, int capability) {
  return p.quantization == Quantization::kNone && p.type != DType::kF32 && capability >= 80 &&
         p.k % kDirectPiece == 0 && aligned_16(p.x, 2 * p.x_stride) &&
         aligned_16(p.weight, p.pitch);
}

void direct_tiles(const WeightProduct& p, LaunchStream stream) {
  if (p.type == DType::kF16) return launch_shape<__half>(p, stream);
  TANDEM_CHECK(p.type == DType::kBF16, "direct_tiles of this type");
  launch_shape<__nv_bfloat16>(p, stream);
}

}  // namespace tandem::cuda
