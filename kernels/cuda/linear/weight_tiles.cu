// Products of quantised weights and 16-bit activations on tensor cores.
//
// A block is 64 features and 16, 32 or 64 tokens, and a part of the steps along k; a warp has 16
// features. A step is 64 bytes of each feature (64 weights of 8 bits or 128 of 4, a group). Steps
// pass through shared memory, some on their way while one is used; a lane takes 16 bytes of two
// features to registers and makes 16-bit numbers of them, which is exact. Which of a step's weights
// are multiplied by one mma is free as long as both sides agree: here a lane's are neighbours, 4 of
// each mma's 16, so that it reads long pieces of both sides.
#include <cstring>
#include <type_traits>

#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/weight_path.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {
namespace {

constexpr int kWeightTileThreads = 128;
constexpr int kWarpFeatures = 16;
static_assert(kWeightTileThreads / kWarpSize * kWarpFeatures == kTileFeatures);

// Two neighbours in 32 bits.
template <class T>
struct Pair {
  static constexpr bool kHalf = std::is_same_v<T, __half>;
  using Type = std::conditional_t<kHalf, __half2, __nv_bfloat162>;
  // 1024 or 128 and, in their last bits, an integer.
  static constexpr uint32_t kInteger = kHalf ? 0x64006400u : 0x43004300u;
  static constexpr float kOffset = kHalf ? 1024.0f : 128.0f;
  // From e4m3's place behind the sign to this exponent's, and what its bias is short of then.
  static constexpr int kFp8Shift = kHalf ? 1 : 4;
  static constexpr float kFp8Factor = kHalf ? 0x1p8f : 0x1p120f;

  static __device__ __forceinline__ Type of(float x) {
    if constexpr (kHalf) {
      return __float2half2_rn(x);
    } else {
      return __float2bfloat162_rn(x);
    }
  }
};

template <class Pairs>
__device__ __forceinline__ uint32_t bits_of(Pairs pair) {
  uint32_t bits;
  static_assert(sizeof(pair) == sizeof(bits));
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
template <class Pairs>
__device__ __forceinline__ Pairs pair_of(uint32_t bits) {
  Pairs pair;
  static_assert(sizeof(pair) == sizeof(bits));
  memcpy(&pair, &bits, sizeof(bits));
  return pair;
}

// Four weights of 32 bits (of int4: of half of them) to two pairs.
template <class T>
__device__ __forceinline__ void to_pairs(Int8, uint32_t word, int, uint32_t, uint32_t (&out)[2]) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 offset = __float2half2_rn(1152.0f);
    out[0] = bits_of(__hsub2(pair_of<__half2>(__byte_perm(word, 0x64646464u, 0x5140u)), offset));
    out[1] = bits_of(__hsub2(pair_of<__half2>(__byte_perm(word, 0x64646464u, 0x5342u)), offset));
  } else {  // the first 16 bits of an f32 of 8 bits are all of it
    out[0] =
        __byte_perm(__float_as_uint(int8_at(word, 0)), __float_as_uint(int8_at(word, 1)), 0x7632u);
    out[1] =
        __byte_perm(__float_as_uint(int8_at(word, 2)), __float_as_uint(int8_at(word, 3)), 0x7632u);
  }
}
template <class T>
__device__ __forceinline__ void to_pairs(Fp8, uint32_t word, int, uint32_t, uint32_t (&out)[2]) {
  using P = Pair<T>;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t spread = __byte_perm(word, 0, i == 0 ? 0x1404u : 0x3424u);
    const uint32_t bits = (spread & 0x80008000u) | (spread & 0x7f007f00u) >> P::kFp8Shift;
    out[i] = bits_of(__hmul2(pair_of<typename P::Type>(bits), P::of(P::kFp8Factor)));
  }
}
// `zero`: the pair that is subtracted.
template <class T>
__device__ __forceinline__ void to_pairs(Int4, uint32_t word, int half, uint32_t zero,
                                         uint32_t (&out)[2]) {
  using P = Pair<T>;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t bits = (word >> (half * 8 + i * 4) & 0x000f000fu) | P::kInteger;
    out[i] = bits_of(__hsub2(pair_of<typename P::Type>(bits), pair_of<typename P::Type>(zero)));
  }
}

template <class T, class Kind, int kTokens>
struct WeightTile {
  static constexpr int kStep = kTileStepBytes / 16 * Kind::kElements;  // weights of a feature
  static constexpr int kPieces = kStep / 8;                            // of 16 bytes in a row of x
  // So that 8 lanes, of two rows, read from different banks.
  static constexpr int kPitch = (kPieces + (Kind::kGroups ? 2 : 1)) * 8;
  static constexpr int kStages = kTokens == 64 ? 3 : 4;
  struct Stage {
    alignas(16) unsigned char weight[kTileFeatures][kTileStepBytes];
    alignas(16) T x[kTokens][kPitch];
  };
  static constexpr int kSumPitch = kTileFeatures + 4;
  static constexpr int kShared =
      std::max<int>(kStages * static_cast<int>(sizeof(Stage)), kTokens* kSumPitch * 4);

  // Where piece `i` of a row of x lies: rows of two times 128 bytes fold.
  static __device__ __forceinline__ int piece_at(int i) {
    return (Kind::kGroups ? i ^ (i >> 3 & 1) : i) * 8;
  }

  static __device__ void load(const WeightProduct& p, Stage& stage, int feature, int token,
                              int step) {
    const int thread = static_cast<int>(threadIdx.x);
    const char* weight = static_cast<const char*>(p.weight);
#pragma unroll
    for (int i = thread; i < kTileFeatures * kTileStepBytes / 16; i += kWeightTileThreads) {
      const int row = i / (kTileStepBytes / 16), at = i % (kTileStepBytes / 16) * 16;
      const bool there = feature + row < static_cast<int>(p.n);
      cp_async_16(
          &stage.weight[row][at],
          weight + (there ? int64_t{feature + row} * p.pitch + step * kTileStepBytes + at : 0),
          there);
    }
    const T* x = static_cast<const T*>(p.x);
#pragma unroll
    for (int i = thread; i < kTokens * kPieces; i += kWeightTileThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      const int k = step * kStep + piece * 8;
      const bool there =
          token + row < static_cast<int>(p.rows) && k < static_cast<int>(p.k);  // k % 8 = 0
      cp_async_16(&stage.x[row][piece_at(piece)],
                  x + (there ? int64_t{token + row} * p.x_stride + k : 0), there);
    }
  }
};

// Of one warp: 16 features by kTokens; a lane has features lane / 4 and lane / 4 + 8, and tokens
// lane % 4 * 2 and the next of every 8.
template <class T, class Kind, int kTokens>
struct WarpTile {
  using Block = WeightTile<T, Kind, kTokens>;
  static constexpr int kMmas = Block::kStep / 16;
  float sums[kTokens / 8][4] = {};

  __device__ __forceinline__ void add(const typename Block::Stage& stage, const WeightProduct& p,
                                      int feature, int step) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpFeatures + lane / 4;
    GroupScale groups[2] = {};
    uint32_t zeros[2] = {};
    if constexpr (Kind::kGroups) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int64_t of = min(int64_t{feature + row + 8 * i}, p.n - 1);
        groups[i] = group_scale(__ldg(p.group_scales + of * ((p.k + 127) / 128) + step));
        zeros[i] = bits_of(Pair<T>::of(Pair<T>::kOffset + groups[i].zero));
      }
    }
    const int pair = lane % 4;
    const uint4 low = *reinterpret_cast<const uint4*>(&stage.weight[row][pair * 16]);
    const uint4 high = *reinterpret_cast<const uint4*>(&stage.weight[row + 8][pair * 16]);
    uint32_t a[kMmas][4];
#pragma unroll
    for (int m = 0; m < kMmas; ++m) {
      const int word = Kind::kGroups ? m / 2 : m;
      uint32_t of_low[2], of_high[2];
      to_pairs<T>(Kind(), word_of(low, word), m % 2, zeros[0], of_low);
      to_pairs<T>(Kind(), word_of(high, word), m % 2, zeros[1], of_high);
      a[m][0] = of_low[0];
      a[m][1] = of_high[0];
      a[m][2] = of_low[1];
      a[m][3] = of_high[1];
    }
#pragma unroll
    for (int t = 0; t < kTokens / 8; ++t) {
      float part[4] = {};
      float(&to)[4] = Kind::kGroups ? part : sums[t];
      const T* x = stage.x[t * 8 + lane / 4];
#pragma unroll
      for (int m = 0; m < kMmas; m += 2) {
        const uint4 b =
            *reinterpret_cast<const uint4*>(x + Block::piece_at(pair * (kMmas / 2) + m / 2));
        mma_m16n8k16<T>(to, a[m], {b.x, b.y});
        mma_m16n8k16<T>(to, a[m + 1], {b.z, b.w});
      }
      if constexpr (Kind::kGroups) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[t][i] = fmaf(part[i], groups[i / 2].scale, sums[t][i]);
      }
    }
  }
};

// Blocks of a multiprocessor, as many as leave enough registers to each.
template <class Kind, int kTokens>
constexpr int kWeightTileBlocks = kTokens == 16   ? (Kind::kGroups ? 5 : 6)
                                  : kTokens == 32 ? (Kind::kGroups ? 3 : 5)
                                                  : (Kind::kGroups ? 2 : 4);

template <class T, class Kind, int kTokens>
__global__ void __launch_bounds__(kWeightTileThreads, (kWeightTileBlocks<Kind, kTokens>))
    weight_tiles_kernel(const __grid_constant__ WeightProduct p, float* partial, int parts) {
  wait_for_earlier_kernels();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  using Block = WeightTile<T, Kind, kTokens>;
  TANDEM_DYNAMIC_SHARED(shared);
  auto* stages = reinterpret_cast<typename Block::Stage*>(shared);
  const int feature = static_cast<int>(blockIdx.x) * kTileFeatures;
  const int token = static_cast<int>(blockIdx.y) * kTokens;
  const auto steps = static_cast<unsigned>(p.pitch / kTileStepBytes);
  const auto step_of = [&](unsigned part) {
    return static_cast<int>(steps * part / static_cast<unsigned>(parts));
  };
  const int begin = step_of(blockIdx.z), end = step_of(blockIdx.z + 1);
  for (int i = 0; i < Block::kStages - 1; ++i) {
    if (begin + i < end) Block::load(p, stages[i], feature, token, begin + i);
    cp_async_commit();
  }
  WarpTile<T, Kind, kTokens> tile;
  int current = 0;
  for (int step = begin; step < end; ++step) {
    cp_async_wait<Block::kStages - 2>();
    __syncthreads();  // this step is there, and the last one is used no more
    const int ahead = step + Block::kStages - 1;
    const int free = current == 0 ? Block::kStages - 1 : current - 1;
    if (ahead < end) Block::load(p, stages[free], feature, token, ahead);
    cp_async_commit();
    tile.add(stages[current], p, feature, step);
    current = current + 1 == Block::kStages ? 0 : current + 1;
  }
  cp_async_wait<0>();
  __syncthreads();
  // Through shared memory, so that neighbours write neighbours.
  auto* sums = reinterpret_cast<float(*)[Block::kSumPitch]>(shared);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpFeatures + lane / 4;
#pragma unroll
  for (int t = 0; t < kTokens / 8; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[t * 8 + lane % 4 * 2 + i % 2][row + i / 2 * 8] = tile.sums[t][i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * kTileFeatures;
       i += kWeightTileThreads) {
    const int64_t to = token + i / kTileFeatures, at = feature + i % kTileFeatures;
    if (to >= p.rows || at >= p.n) continue;
    const float sum = sums[i / kTileFeatures][i % kTileFeatures];
    if (parts == 1) {
      finish<T>(p.epilogue, to, at, sum);
    } else {
      partial[(int64_t{blockIdx.z} * p.rows + to) * p.n + at] = sum;
    }
  }
#else
  __trap();  // tiles_possible says so
#endif
}

template <class T, class Kind, int kTokens>
void launch_weight_tiles(const WeightProduct& p, float* sums, LaunchStream stream) {
  constexpr int kShared = WeightTile<T, Kind, kTokens>::kShared;
  if (kShared > 48 * 1024)
    TANDEM_CUDA_CHECK(cudaFuncSetAttribute(weight_tiles_kernel<T, Kind, kTokens>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const int parts = tile_parts(p.n, p.pitch);
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kTileFeatures)),
                  static_cast<unsigned>(ceil_div(p.rows, kTokens)), static_cast<unsigned>(parts));
  TANDEM_LAUNCH((weight_tiles_kernel<T, Kind, kTokens>), grid, kWeightTileThreads, kShared, stream,
                p, sums, parts);
  TANDEM_CUDA_CHECK(cudaGetLastError());
  if (parts > 1) finish_product(sums, parts, p.rows, p.n, p.epilogue, stream);
}

template <class T, class Kind>
void launch_tokens(const WeightProduct& p, float* sums, LaunchStream stream) {
  switch (tile_tokens(p.rows)) {
    case 16: return launch_weight_tiles<T, Kind, 16>(p, sums, stream);
    case 32: return launch_weight_tiles<T, Kind, 32>(p, sums, stream);
    default: return launch_weight_tiles<T, Kind, 64>(p, sums, stream);
  }
}

}  // namespace

void weight_tiles(const WeightProduct& p, float* sums, LaunchStream stream) {
  with_quantization(p.quantization, [&](auto kind) {
    using Kind = decltype(kind);
    if (p.type == DType::kF16) return launch_tokens<__half, Kind>(p, sums, stream);
    TANDEM_CHECK(p.type == DType::kBF16, "tiles of this type");
    launch_tokens<__nv_bfloat16, Kind>(p, sums, stream);
  });
}

}  // namespace tandem::cuda
