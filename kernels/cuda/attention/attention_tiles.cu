// Attention of many queries on tensor cores: the encoder, and prompts of the decoder.
//
// A block is one item of the plan and one head: 4 warps of 16 queries. Tiles of 64 keys and values
// go through shared memory, one being loaded while another is used; scores, weights and sums stay
// in registers (mma m16n8k16, a running softmax in f32). Rows of shared memory are 16 bytes longer
// than a head, so that 8 of them lie in different banks. A row's keys are added in an order of its
// own: tiles that it does not see, or not yet, change nothing.
#include <type_traits>

#include "kernels/cuda/attention/attention_options.cuh"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda {
namespace {

// How partial_at() computes, so that nothing spills: 120's compiler wants the other one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr bool kWideParts = false;
#else
constexpr bool kWideParts = true;
#endif

constexpr int kTileThreads = 128;
constexpr int kTileKeys = 64;
constexpr int kWarpRows = 16;
static_assert(kTileThreads / kWarpSize * kWarpRows == kTileRows);

// What a kernel is compiled with: a bias, or all options (attention_options.cuh), a bias perhaps.
enum class With : uint8_t { kNothing, kBias, kOptions };

// The biases of one tile, times log2 e: of query i and key j `values[j - i + kTileRows - 1]`.
struct BiasStage {
  float values[kTileKeys + kTileRows];
  // A thread each; seen by all after the next barrier.
  __device__ void load_bias(const AttentionKernelParams& p, const AttentionWork& work, int head,
                            int32_t first) {
    static_assert(kTileThreads == kTileKeys + kTileRows);
    const auto i = static_cast<int32_t>(threadIdx.x);
    values[i] = BiasRow(p.args, work, head).add(0.0f, first + i - (kTileRows - 1));
  }
};
struct NoBiasStage {};

// Keys and values of one tile.
template <class Type, int kDim, With kWith>
struct Stage : std::conditional_t<kWith == With::kNothing, NoBiasStage, BiasStage> {
  using Element = typename Type::Element;
  static constexpr int kPitch = kDim + 8;
  alignas(16) Element k[kTileKeys][kPitch];
  Element v[kTileKeys][kPitch];

  // Starts to copy the keys [first, first + kTileKeys); beyond the item's last, that one again.
  __device__ void load(const AttentionKernelParams& p, const AttentionWork& work, int head,
                       int32_t first) {
    if constexpr (kWith == With::kBias) this->load_bias(p, work, head, first);
    if constexpr (kWith == With::kOptions)
      if (p.args.bias != nullptr) this->load_bias(p, work, head, first);
    constexpr int kPieces = kDim / 8;  // of 16 bytes in a row
#pragma unroll 1
    for (int i = 0; i < kTileKeys * kPieces / kTileThreads; ++i) {
      const int piece = static_cast<int>(threadIdx.x) + i * kTileThreads;
      const int row = piece / kPieces, at = piece % kPieces * 8;
      const int32_t key = min(first + row, work.key_end - 1);
      int64_t token = work.kv_base + key, offset = int64_t{kv_head_of_block()} * kDim;
      if (p.args.pages != nullptr) {
        const int32_t index = p.page.quotient(key);
        token = key - index * p.args.block_size;
        offset = p.args.page_indices[work.kv_base + index] * p.args.page_stride +
                 kv_head_of_block() * p.args.head_stride;
      }
      cp_async_16(&k[row][at],
                  static_cast<const Element*>(p.k_base) + offset + token * p.k_row + at);
      cp_async_16(&v[row][at],
                  static_cast<const Element*>(p.v_base) + offset + token * p.v_row + at);
    }
  }
};

// 16 queries of a warp. A lane has parts of the rows lane / 4 and lane / 4 + 8: columns
// lane % 4 * 2 and the next of every 8.
template <class Type, int kDim, With kWith>
struct WarpRows {
  using Element = typename Type::Element;
  static constexpr int kKeyTiles = kTileKeys / 8, kDimTiles = kDim / 8;
  uint32_t q[kDim / 16][4];
  float values[kDimTiles][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};  // a sum: of this lane's keys
  int row, column;                                                   // the lane's first

  __device__ WarpRows(const AttentionParams& p, const AttentionWork& work, int head) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpRows + lane / 4;
    column = lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t at = work.query_row + min(row + half * 8, work.queries - 1);
      const Element* from =
          static_cast<const Element*>(p.q) + at * p.q_stride + head * kDim + column;
#pragma unroll
      for (int i = 0; i < kDim / 16; ++i) {
        q[i][half] = *reinterpret_cast<const uint32_t*>(from + i * 16);
        q[i][half + 2] = *reinterpret_cast<const uint32_t*>(from + i * 16 + 8);
      }
    }
  }

  __device__ void add(const Stage<Type, kDim, kWith>& stage, const AttentionKernelParams& p,
                      const AttentionWork& work, int32_t first) {
    float scores[kKeyTiles][4] = {};
    multiply_keys(stage, scores);
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)  // on its own: no part of a later sum
        scores[j][i] = __fmul_rn(scores[j][i], p.scale_log2);
    if constexpr (kWith == With::kBias) add_bias(stage, scores);
    if constexpr (kWith == With::kOptions) apply_options(stage, p.args, work, first, scores);
    const int first_row = row / kWarpRows * kWarpRows;
    if (first + kTileKeys > min(work.key_end, work.position + first_row + 1))
      mask(work, first, scores);
    uint32_t weights[kKeyTiles][2];
    soften(scores, weights);
    multiply_values(stage, weights);
  }

  __device__ void multiply_keys(const Stage<Type, kDim, kWith>& stage,
                                float (&scores)[kKeyTiles][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int d = 0; d < kDim; d += 16)
#pragma unroll
      for (int key = 0; key < kTileKeys; key += 16) {
        uint32_t b[4];
        ldmatrix_x4(b, &stage.k[key + lane / 16 * 8 + lane % 8][d + lane / 8 % 2 * 8]);
        mma_m16n8k16<Element>(scores[key / 8], q[d / 16], {b[0], b[1]});
        mma_m16n8k16<Element>(scores[key / 8 + 1], q[d / 16], {b[2], b[3]});
      }
  }

  __device__ void add_bias(const BiasStage& stage, float (&scores)[kKeyTiles][4]) const {
    const float* values = stage.values + kTileRows - 1 + column - row;
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[j][i] += values[j * 8 + i % 2 - i / 2 * 8];
  }

  __device__ void apply_options(const BiasStage& stage, const AttentionParams& p,
                                const AttentionWork& work, int32_t first,
                                float (&scores)[kKeyTiles][4]) const {
    if (p.soft_cap != 0.0f) {
      const SoftCap cap(p);
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[j][i] = cap.capped(scores[j][i]);
    }
    if (p.bias != nullptr) add_bias(stage, scores);
    const WindowEdges edges(p, work);
    const int first_row = row / kWarpRows * kWarpRows;
    if (first >= edges.back + first_row + kWarpRows - 1 &&
        first + kTileKeys - 1 <= edges.ahead + first_row)
      return;
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (!edges.sees(row + i / 2 * 8, first + j * 8 + column + i % 2)) scores[j][i] = -INFINITY;
  }

  // -inf where a row does not see a key.
  __device__ void mask(const AttentionWork& work, int32_t first,
                       float (&scores)[kKeyTiles][4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t end = min(work.key_end, work.position + row + i / 2 * 8 + 1);
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
        if (first + j * 8 + column + i % 2 >= end) scores[j][i] = -INFINITY;
    }
  }

  // The weights of the scores, of both rows; what has been summed is scaled to the new maximum.
  __device__ void soften(const float (&scores)[kKeyTiles][4], uint32_t (&weights)[kKeyTiles][2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = maximum[half];
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
        top = fmaxf(top, fmaxf(scores[j][half * 2], scores[j][half * 2 + 1]));
      top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, 2));
      const float base = scale_base(top), factor = exp2_fast(maximum[half] - base);
      maximum[half] = top;
      float added = 0.0f;
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j) {
        const float low = exp2_fast(scores[j][half * 2] - base);
        const float high = exp2_fast(scores[j][half * 2 + 1] - base);
        added += low + high;
        weights[j][half] = Type::pack(low, high);
      }
      sum[half] = fmaf(sum[half], factor, added);
#pragma unroll
      for (int j = 0; j < kDimTiles; ++j) {
        values[j][half * 2] *= factor;
        values[j][half * 2 + 1] *= factor;
      }
    }
  }

  __device__ void multiply_values(const Stage<Type, kDim, kWith>& stage,
                                  const uint32_t (&weights)[kKeyTiles][2]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int key = 0; key < kTileKeys; key += 16) {
      const uint32_t(&low)[2] = weights[key / 8];
      const uint32_t(&high)[2] = weights[key / 8 + 1];
      const uint32_t a[4] = {low[0], low[1], high[0], high[1]};
#pragma unroll
      for (int d = 0; d < kDim; d += 16) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, &stage.v[key + lane % 16][d + lane / 16 * 8]);
        mma_m16n8k16<Element>(values[d / 8], a, {b[0], b[1]});
        mma_m16n8k16<Element>(values[d / 8 + 1], a, {b[2], b[3]});
      }
    }
  }

  __device__ void write(const AttentionParams& p, const AttentionWork& work, int head) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(kFullWarp, sum[half], 1);
      sum[half] += __shfl_xor_sync(kFullWarp, sum[half], 2);
      const int query = row + half * 8;
      if (query >= work.queries) continue;
      if (work.chunks > 1) {
        float* part = partial_at<kWideParts>(p, work, work.chunk, query, head);
#pragma unroll
        for (int j = 0; j < kDimTiles; ++j) {
          part[j * 8 + column] = values[j][half * 2];
          part[j * 8 + column + 1] = values[j][half * 2 + 1];
        }
        if (column == 0) {
          part[kDim] = maximum[half];
          part[kDim + 1] = sum[half];
        }
      } else {
        Element* out = static_cast<Element*>(p.out) + (work.query_row + query) * p.out_stride +
                       head * kDim + column;
        const float inverse = 1.0f / sum[half];
#pragma unroll
        for (int j = 0; j < kDimTiles; ++j)
          *reinterpret_cast<uint32_t*>(out + j * 8) =
              Type::pack(values[j][half * 2] * inverse, values[j][half * 2 + 1] * inverse);
        if (kWith == With::kOptions && column == 0)
          write_log_sum(p, work.query_row + query, head, maximum[half], sum[half]);
      }
    }
  }
};

template <class Type, int kDim, With kWith>
__device__ void attend(const AttentionKernelParams& p, const AttentionWork& work, int head,
                       Stage<Type, kDim, kWith>* stages) {
  const int first_row = static_cast<int>(threadIdx.x) / kWarpSize * kWarpRows;
  // Of this warp; all of them copy.
  int32_t begin = 0;
  int32_t end = first_row < work.queries ? min(work.key_end, work.position + first_row + kWarpRows)
                                         : work.key_begin;
  if constexpr (kWith == With::kOptions) {
    const WindowEdges edges(p.args, work);
    begin = edges.back + first_row;
    end = min(end, edges.ahead + first_row + kWarpRows);
  }
  stages[0].load(p, work, head, work.key_begin);
  cp_async_commit();
  WarpRows<Type, kDim, kWith> rows(p.args, work, head);
  int current = 0;
  for (int32_t first = work.key_begin; first < work.key_end; first += kTileKeys) {
    if (first + kTileKeys < work.key_end)
      stages[1 - current].load(p, work, head, first + kTileKeys);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    if (first < end && (kWith != With::kOptions || first + kTileKeys > begin))
      rows.add(stages[current], p, work, first);
    __syncthreads();
    current = 1 - current;
  }
  rows.write(p.args, work, head);
}

// Blocks of a multiprocessor, as many as leave enough registers to each.
template <int kDim, With kWith>
constexpr int kTileBlocks = kDim <= (kWith == With::kNothing ? 64 : 32) ? 4
                            : kDim <= 96                                ? 3
                                                                        : 2;

template <class Type, int kDim, With kWith>
__global__ void __launch_bounds__(kTileThreads, (kTileBlocks<kDim, kWith>))
    tiles_kernel(const __grid_constant__ AttentionKernelParams p) {
  wait_for_earlier_kernels();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  TANDEM_DYNAMIC_SHARED(shared);
  __shared__ AttentionWork work;  // not in registers all the time
  if (threadIdx.x == 0) {
    work = load_work(p.args.work, static_cast<int>(blockIdx.x));
    if constexpr (kWith == With::kOptions)
      if (work.queries > 0 && !narrow(p.args, kKeysPerTileChunk, kTileKeys, work)) work.queries = 0;
  }
  __syncthreads();
  if (work.queries == 0) return;
  const int head = HeadQueries::of_block();
  attend(p, work, head, reinterpret_cast<Stage<Type, kDim, kWith>*>(shared));
  if (work.chunks > 1)
    merge_chunks<Type, kWith == With::kOptions, kWideParts>(p.args, work, HeadQueries());
#else
  __trap();  // tiles_supported says so
#endif
}

template <class Type, int kDim, With kWith>
void launch_variant(const AttentionKernelParams& p, LaunchStream stream) {
  constexpr int kShared = 2 * static_cast<int>(sizeof(Stage<Type, kDim, kWith>));
  if (kShared > 48 * 1024)
    TANDEM_CUDA_CHECK(cudaFuncSetAttribute(tiles_kernel<Type, kDim, kWith>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  const dim3 grid = attention_grid(p.args, p.args.work_count, p.args.group);
  TANDEM_LAUNCH((tiles_kernel<Type, kDim, kWith>), grid, kTileThreads, kShared, stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class Type, int kDim>
void launch(const AttentionKernelParams& p, LaunchStream stream) {
  if (p.args.has_options()) {
    launch_variant<Type, kDim, With::kOptions>(p, stream);
  } else if (p.args.bias != nullptr) {
    launch_variant<Type, kDim, With::kBias>(p, stream);
  } else {
    launch_variant<Type, kDim, With::kNothing>(p, stream);
  }
}

template <class Type>
void launch_dim(const AttentionKernelParams& p, LaunchStream stream) {
  switch (p.args.head_dim) {
    case 16: return launch<Type, 16>(p, stream);
    case 32: return launch<Type, 32>(p, stream);
    case 48: return launch<Type, 48>(p, stream);
    case 64: return launch<Type, 64>(p, stream);
    case 80: return launch<Type, 80>(p, stream);
    case 96: return launch<Type, 96>(p, stream);
    case 112: return launch<Type, 112>(p, stream);
    case 128: return launch<Type, 128>(p, stream);
    default: TANDEM_CHECK(false, "tiles of this head size");
  }
}

}  // namespace

bool tiles_supported(DType dtype, int head_dim, int compute_capability) {
  return (dtype == DType::kF16 || dtype == DType::kBF16) && head_dim >= 16 && head_dim <= 128 &&
         head_dim % 16 == 0 && compute_capability >= 80;
}

void attention_tiles(const AttentionParams& params, LaunchStream stream) {
  if (params.work_count == 0) return;
  TANDEM_CHECK(params.scales == nullptr, "tiles of f8 pages");
  TANDEM_CHECK(aligned_16(params), "tiles of rows that do not begin at multiples of 16 bytes");
  const AttentionKernelParams p = kernel_params(params);
  switch (params.dtype) {
    case DType::kBF16: return launch_dim<BF16>(p, stream);
    case DType::kF16: return launch_dim<F16>(p, stream);
    default: TANDEM_CHECK(false, "tiles of this type");
  }
}

}  // namespace tandem::cuda
