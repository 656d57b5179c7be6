// out = activation(W norm(x + residual) + bias) of 9 to 128 rows on tensor cores.
//
// A block is 64 features and 16, 32 or 64 tokens, and all of k. It makes the norm of its tokens
// itself, to shared memory, with the bits of layer_norm: so every block that shares the tokens does
// the same once more (out of the L2 cache), and nobody waits for anybody. The first block of each
// writes the rows, for whoever adds to them later. Weights pass through shared memory in steps of
// 64 elements, the first of them asked for before the kernels in front have ended.
//
// The sums of a row do not depend on the other rows, nor on how many there are.
#include <algorithm>

#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/norm_tiles.h"
#include "kernels/cuda/linear/tile_stages.cuh"
#include "kernels/cuda/linear/weight_path.h"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {
namespace {

using tiles::kPiece;
using tiles::kStages;
using tiles::kThreads;
using tiles::kWarps;
using tiles::row_pitch;

constexpr int kFeatures = 64;  // of a block
constexpr int kSumPitch = kFeatures + 4;
constexpr int64_t kMostNormed = 2048;

using Stage = tiles::Stage<kFeatures>;

size_t shared_bytes(int64_t k, int tokens) {
  return kStages * sizeof(Stage) + static_cast<size_t>(tokens) * row_pitch(k) * 2;
}

// The first steps of the weight, which is constant, are under way before anything is waited for.
[[maybe_unused]] __device__ __forceinline__ void prefetch_stages(const WeightProduct& p,
                                                                 int64_t feature, int64_t steps) {
  TANDEM_DYNAMIC_SHARED(shared);
  auto* stages = reinterpret_cast<Stage*>(shared);
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < steps) tiles::load_stage(p, stages[i], feature, i);
    cp_async_commit();
  }
}

// The tree of block_sum over layer_norm's 128 threads, of which a lane has four.
[[maybe_unused]] __device__ __forceinline__ float sum_as_block(float (&parts)[4]) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
    for (int w = 0; w < 4; ++w) parts[w] += __shfl_xor_sync(kFullWarp, parts[w], offset);
  return ((parts[0] + 0.0f) + (parts[2] + 0.0f)) + ((parts[1] + 0.0f) + (parts[3] + 0.0f));
}

[[maybe_unused]] __device__ __forceinline__ void load_floats(const float* from,
                                                             float (&out)[kPiece]) {
#pragma unroll
  for (int i = 0; i < kPiece; i += 4) {
    const float4 four = load_as<float4>(from + i);
    out[i] = four.x;
    out[i + 1] = four.y;
    out[i + 2] = four.z;
    out[i + 3] = four.w;
  }
}

// A row of a warp: what thread 32 * w + lane of layer_norm has of it are the pieces w, w + 4, ...
template <class T, int kParts>
struct WarpRow {
  static constexpr int kPieces = 4 * kParts;
  uint4 x[kPieces], residual[kPieces];

  static __device__ __forceinline__ int64_t place(int i) {
    const int thread = i % 4 * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize;
    return thread * kPiece + i / 4 * 4 * kWarpSize * kPiece;
  }
  __device__ __forceinline__ void load(const NormProduct& p, int64_t row) {
    if (row >= p.product.rows) return;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int64_t at = place(i);
      x[i] = residual[i] = uint4{0, 0, 0, 0};
      if (at >= p.product.k) continue;
      x[i] = load_as<uint4>(static_cast<const T*>(p.x) + row * p.x_stride + at);
      if (p.residual != nullptr)
        residual[i] =
            load_as<uint4>(static_cast<const T*>(p.residual) + row * p.residual_stride + at);
    }
  }

  static __device__ __forceinline__ void store(const float (&values)[kPiece], T* to) {
    Vector<T> v;
#pragma unroll
    for (int j = 0; j < kPiece; ++j) v.values[j] = from_float<T>(values[j]);
    *reinterpret_cast<Vector<T>*>(to) = v;
  }

  // As layer_norm, sum for sum; to `tile`, and to memory where `writes`.
  __device__ __forceinline__ void norm(const NormProduct& p, int64_t row, bool writes,
                                       T* tile) const {
    float h[kPieces][kPiece], sums[4] = {}, squares[4] = {};
    const bool adds = p.residual != nullptr;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      float more[kPiece];
      Plain<T>::widen(x[i], 0, {}, h[i]);
      Plain<T>::widen(residual[i], 0, {}, more);
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        if (adds) h[i][j] += more[j];
        sums[i % 4] += h[i][j];
      }
      if (writes && p.sum != nullptr && place(i) < p.product.k)
        store(h[i], static_cast<T*>(p.sum) + row * p.sum_stride + place(i));
    }
    const auto size = static_cast<float>(p.product.k);
    const float mean = p.rms ? 0.0f : sum_as_block(sums) / size;
#pragma unroll
    for (int i = 0; i < kPieces; ++i)
#pragma unroll
      for (int j = 0; j < kPiece; ++j) {
        const float d = place(i) < p.product.k ? h[i][j] - mean : 0.0f;
        squares[i % 4] = fmaf(d, d, squares[i % 4]);
      }
    const float scale = 1.0f / sqrtf(sum_as_block(squares) / size + p.eps);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int64_t at = place(i);
      if (at >= p.product.k) continue;
      float weights[kPiece], biases[kPiece] = {}, normed[kPiece];
      load_floats(p.weight + at, weights);
      if (!p.rms) load_floats(p.bias + at, biases);
#pragma unroll
      for (int j = 0; j < kPiece; ++j)
        normed[j] = fmaf((h[i][j] - mean) * scale, weights[j], biases[j]);
      store(normed, tile + at);
      if (writes) store(normed, static_cast<T*>(p.out) + row * p.out_stride + at);
    }
  }
};

// The norms of the block's tokens; zeros behind k, and for tokens that are not there.
template <class T, int kTokens, int kParts>
__device__ __forceinline__ void norm_tokens(const NormProduct& p, int64_t token, T* tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int pitch = row_pitch(p.product.k);
  WarpRow<T, kParts> next{};
  next.load(p, token + warp);
  for (int i = warp; i < kTokens; i += kWarps) {
    const WarpRow<T, kParts> row = next;
    if (i + kWarps < kTokens) next.load(p, token + i + kWarps);
    const bool there = token + i < p.product.rows;
    if (there) row.norm(p, token + i, blockIdx.x == 0, tile + i * pitch);
    for (int at = (there ? static_cast<int>(p.product.k) : 0) + lane * kPiece; at < pitch;
         at += kWarpSize * kPiece)
      *reinterpret_cast<uint4*>(tile + i * pitch + at) = uint4{0, 0, 0, 0};
  }
}

template <class T, int kTokens>
using WarpSums = tiles::WarpSums<T, kFeatures, kTokens>;

template <class T, int kTokens>
__device__ __forceinline__ void store(const WarpSums<T, kTokens>& of_warp, float (*to)[kSumPitch]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int token = of_warp.first_token() + lane % 4 * 2;
  const int feature = of_warp.first_feature() + lane / 4;
  static_assert(WarpSums<T, kTokens>::kMmas == 1);
#pragma unroll
  for (int t = 0; t < kTokens / tiles::kTokenGroups / 8; ++t)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[token + t * 8 + i % 2][feature + i / 2 * 8] = of_warp.sums[0][t][i];
}

template <class T, int kTokens, int kParts>
__global__ void __launch_bounds__(kThreads)
    norm_tiles_kernel(const __grid_constant__ NormProduct p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const int64_t feature = int64_t{blockIdx.x} * kFeatures;
  const int64_t token = int64_t{blockIdx.y} * kTokens;
  const int64_t steps = tiles::steps_of(p.product.k);
  prefetch_stages(p.product, feature, steps);
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  auto* stages = reinterpret_cast<Stage*>(shared);
  T* tile = reinterpret_cast<T*>(shared + kStages * sizeof(Stage));
  norm_tokens<T, kTokens, kParts>(p, token, tile);
  WarpSums<T, kTokens> of_warp;
  tiles::Ring<kFeatures> ring(stages);
  for (int64_t step = 0; step < steps; ++step) {
    const Stage& stage = ring.next([&](Stage& free) {
      const int64_t ahead = step + kStages - 1;
      if (ahead < steps) tiles::load_stage(p.product, free, feature, ahead);
    });
    of_warp.add(stage, tile + step * tiles::kStep, row_pitch(p.product.k));
  }
  cp_async_wait<0>();
  __syncthreads();
  // Through shared memory, so that neighbours write neighbours.
  static_assert(kTokens * kSumPitch * sizeof(float) <= kStages * sizeof(Stage));
  auto* sums = reinterpret_cast<float(*)[kSumPitch]>(shared);
  store<T, kTokens>(of_warp, sums);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * kFeatures; i += kThreads) {
    const int64_t row = token + i / kFeatures, at = feature + i % kFeatures;
    if (row < p.product.rows && at < p.product.n)
      finish<T>(p.product.epilogue, row, at, sums[i / kFeatures][i % kFeatures]);
  }
#else
  wait_for_earlier_kernels();
  __trap();  // norm_tile_tokens says so
#endif
}

template <class T, int kTokens, int kParts>
void launch(const NormProduct& p, LaunchStream stream) {
  const size_t bytes = shared_bytes(p.product.k, kTokens);
  if (bytes > 48 * 1024)
    TANDEM_CUDA_CHECK(cudaFuncSetAttribute(norm_tiles_kernel<T, kTokens, kParts>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(bytes)));
  const dim3 grid(static_cast<unsigned>(ceil_div(p.product.n, kFeatures)),
                  static_cast<unsigned>(ceil_div(p.product.rows, kTokens)));
  TANDEM_LAUNCH((norm_tiles_kernel<T, kTokens, kParts>), grid, kThreads, bytes, stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class T, int kTokens>
void launch_parts(const NormProduct& p, LaunchStream stream) {
  p.product.k <= kMostNormed / 2 ? launch<T, kTokens, 1>(p, stream)
                                 : launch<T, kTokens, 2>(p, stream);
}

template <class T>
void launch_tokens(const NormProduct& p, int tokens, LaunchStream stream) {
  switch (tokens) {
    case 16: return launch_parts<T, 16>(p, stream);
    case 32: return launch_parts<T, 32>(p, stream);
    default: return launch_parts<T, 64>(p, stream);
  }
}

}  // namespace

int norm_tile_tokens(const NormProduct& p, int capability, size_t shared) {
  const WeightProduct& of = p.product;
  const bool fits = of.rows > kMostRowsAtOnce && of.rows <= kMostNormTileRows && capability >= 80 &&
                    of.type != DType::kF32 && of.quantization == Quantization::kNone &&
                    of.k % kPiece == 0 && of.k <= kMostNormed && aligned_16(p.x, 2 * p.x_stride) &&
                    aligned_16(p.residual, 2 * p.residual_stride) &&
                    aligned_16(p.out, 2 * p.out_stride) && aligned_16(p.sum, 2 * p.sum_stride) &&
                    aligned_16(of.weight, of.pitch) && aligned_16(p.weight, 0) &&
                    aligned_16(p.bias, 0);
  int tokens = !fits ? 0 : of.rows <= 16 ? 16 : of.rows <= 32 ? 32 : 64;
  while (tokens >= 16 && shared_bytes(of.k, tokens) > shared) tokens /= 2;
  return tokens >= 16 ? tokens : 0;
}

void norm_tiles(const NormProduct& p, int tokens, LaunchStream stream) {
  if (p.product.type == DType::kF16) return launch_tokens<__half>(p, tokens, stream);
  TANDEM_CHECK(p.product.type == DType::kBF16, "norm_tiles of this type");
  launch_tokens<__nv_bfloat16>(p, tokens, stream);
}

}  // namespace tandem::cuda
