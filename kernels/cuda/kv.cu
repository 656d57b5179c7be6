// Keys and values to their pages; copies of whole blocks.
#include <cuda_fp8.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/rotary.cuh"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

struct WriteParams {
  int64_t k_stride, v_stride;
  const int32_t* slots;
  int64_t page_stride, value_offset, head_stride, token_stride;
  int block_size, head_dim, features;
  Turn turn;  // of keys
};

// One thread for each vector of a token's keys and values; a token in grid.x.
template <class T, class Vec>
__global__ void write_kv_kernel(WriteParams p, const T* k, const T* v, T* pages) {
  wait_for_earlier_kernels();
  constexpr int kWidth = static_cast<int>(sizeof(Vec) / sizeof(T));
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  T* page = pages + slot / p.block_size * p.page_stride + slot % p.block_size * p.token_stride;
  const int vectors = p.features / kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * vectors; i += static_cast<int>(blockDim.x)) {
    const bool value = i >= vectors;
    const int feature = (value ? i - vectors : i) * kWidth;
    const T* from = value ? v + token * p.v_stride : k + token * p.k_stride;
    T* to = page + (value ? p.value_offset : 0) + feature / p.head_dim * p.head_stride +
            feature % p.head_dim;
    *reinterpret_cast<Vec*>(to) = *reinterpret_cast<const Vec*>(from + feature);
  }
}

// The same for keys that turn: an element at a time.
template <class T>
__global__ void write_turned_kv_kernel(WriteParams p, const T* k, const T* v, T* pages) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  T* page = pages + slot / p.block_size * p.page_stride + slot % p.block_size * p.token_stride;
  for (int i = static_cast<int>(threadIdx.x); i < p.features; i += static_cast<int>(blockDim.x)) {
    const int d = i % p.head_dim;
    T* to = page + i / p.head_dim * p.head_stride + d;
    *to = from_float<T>(p.turn.element(k + token * p.k_stride + (i - d), token, d));
    to[p.value_offset] = v[token * p.v_stride + i];
  }
}

// One warp for each key or value of a head; a token in grid.x. Twice: the size of the largest
// finite element, then the bytes (the row is in the first cache). kTurned: keys turn before that.
template <class T, bool kTurned>
__global__ void write_f8_kernel(WriteParams p, const T* k, const T* v, uint8_t* pages,
                                uint8_t* scales) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int heads = p.features / p.head_dim;
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < 2 * heads;
       i += static_cast<int>(blockDim.x) / kWarpSize) {
    const int head = i % heads;
    const T* from =
        (i < heads ? k + token * p.k_stride : v + token * p.v_stride) + int64_t{head} * p.head_dim;
    const auto element = [&](int d) {
      return kTurned && i < heads ? p.turn.element(from, token, d) : to_float(from[d]);
    };
    float largest = 0.0f;
    for (int d = lane; d < p.head_dim; d += kWarpSize) {
      const float size = fabsf(element(d));
      if (size < INFINITY) largest = fmaxf(largest, size);
    }
    largest = warp_max(largest);
    // The least power of two 2^(exponent - 127) of which 448 (1.75 times 2^8) is as large.
    const uint32_t bits = __float_as_uint(largest);
    const int exponent =
        max(1, static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0));
    const float inverse = __uint_as_float(static_cast<uint32_t>(254 - exponent) << 23);
    const int64_t at = slot / p.block_size * p.page_stride + slot % p.block_size * p.token_stride +
                       (i < heads ? 0 : p.value_offset) + head * p.head_stride;
    if (lane == 0) scales[at / p.head_dim] = static_cast<uint8_t>(exponent);
    for (int d = lane; d < p.head_dim; d += kWarpSize)
      pages[at + d] = __nv_cvt_float_to_fp8(element(d) * inverse, __NV_SATFINITE, __NV_E4M3);
  }
}

// A pair of blocks in grid.y. Either pool may lie in host memory that the device reaches.
template <class Word>
__global__ void copy_blocks_kernel(const Word* src, Word* dst, const int32_t* pairs,
                                   int64_t words) {
  wait_for_earlier_kernels();
  const Word* from = src + pairs[2 * blockIdx.y] * words;
  Word* to = dst + pairs[2 * blockIdx.y + 1] * words;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += step)
    to[i] = from[i];
}

bool aligned(const void* p, int64_t stride_bytes) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && stride_bytes % 16 == 0;
}

}  // namespace

void write_kv(Context& ctx, const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  WriteParams p{};
  p.k_stride = args.k.row_stride();
  p.v_stride = args.v.row_stride();
  p.slots = args.slot_mapping.data<int32_t>();
  p.page_stride = s.block;
  p.value_offset = s.kv;
  p.head_stride = s.head;
  p.token_stride = s.token;
  p.block_size = static_cast<int>(s.block_size);
  p.head_dim = static_cast<int>(s.head_dim);
  p.features = static_cast<int>(s.num_heads * s.head_dim);
  const bool turned = !args.rotary.angles.empty();
  if (turned) p.turn = Turn(args.rotary);
  with_type(args.k.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* k = static_cast<const T*>(args.k.raw());
    const T* v = static_cast<const T*>(args.v.raw());
    const unsigned tokens = static_cast<unsigned>(args.k.dim(0));
    if (args.pages.data.dtype() == DType::kF8E4M3) {
      const auto write = [&](auto kernel) {
        TANDEM_LAUNCH(kernel, tokens, 256, 0, stream_of(ctx), p, k, v,
                      static_cast<uint8_t*>(args.pages.data.raw()),
                      args.pages.scales.data<uint8_t>());
      };
      turned ? write(write_f8_kernel<T, true>) : write(write_f8_kernel<T, false>);
      return;
    }
    T* pages = static_cast<T*>(args.pages.data.raw());
    const auto size = static_cast<int64_t>(sizeof(T));
    if (turned) {
      TANDEM_LAUNCH(write_turned_kv_kernel<T>, tokens, 128, 0, stream_of(ctx), p, k, v, pages);
    } else if (p.head_dim % kVector<T> == 0 && aligned(k, p.k_stride * size) &&
               aligned(v, p.v_stride * size) && aligned(pages, 0)) {
      TANDEM_LAUNCH((write_kv_kernel<T, Vector<T>>), tokens, 128, 0, stream_of(ctx), p, k, v,
                    pages);
    } else {
      TANDEM_LAUNCH((write_kv_kernel<T, T>), tokens, 128, 0, stream_of(ctx), p, k, v, pages);
    }
  });
  after_launch("write_kv");
}

void copy_blocks(Context& ctx, const ops::CopyBlocksArgs& args) {
  if (args.src.dim(0) == 0 || args.src.bytes() == 0) return;
  const Tensor pairs = ctx.make(args.pairs.shape(), DType::kI32);
  ctx.backend().copy_in(args.pairs, pairs);
  const auto count = args.pairs.dim(0) / 2;
  const auto bytes = static_cast<int64_t>(args.src.bytes()) / args.src.dim(0);
  constexpr int64_t kPairs = 65535;  // grid.y
  for (int64_t first = 0; first < count; first += kPairs) {
    const int32_t* these = pairs.data<int32_t>() + 2 * first;
    const auto y = static_cast<unsigned>(count - first < kPairs ? count - first : kPairs);
    if (aligned(args.src.raw(), bytes) && aligned(args.dst.raw(), bytes)) {
      const dim3 grid(static_cast<unsigned>(ceil_div(bytes / 16, 256 * 4)), y);
      TANDEM_LAUNCH(copy_blocks_kernel<Vector<float>>, grid, 256, 0, stream_of(ctx),
                    static_cast<const Vector<float>*>(args.src.raw()),
                    static_cast<Vector<float>*>(args.dst.raw()), these, bytes / 16);
    } else {
      const dim3 grid(static_cast<unsigned>(ceil_div(bytes / 2, 256 * 4)), y);
      TANDEM_LAUNCH(copy_blocks_kernel<uint16_t>, grid, 256, 0, stream_of(ctx),
                    static_cast<const uint16_t*>(args.src.raw()),
                    static_cast<uint16_t*>(args.dst.raw()), these, bytes / 2);
    }
  }
  after_launch("copy_blocks");
}

}  // namespace tandem::cuda
