// Keys and values to their pages; copies of whole blocks.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kv_rows.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

// One thread for each vector of a token's keys and values; a token in grid.x.
template <class T>
__global__ void write_vectors_kernel(NewKeys p) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  T* page = static_cast<T*>(p.pages) + p.place(slot);
  const int vectors = p.heads * p.head_dim / kVector<T>;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * vectors; i += static_cast<int>(blockDim.x)) {
    const bool value = i >= vectors;
    const int feature = (value ? i - vectors : i) * kVector<T>;
    const T* from = static_cast<const T*>(value ? p.v : p.k) +
                    token * (value ? p.v_stride : p.k_stride) + feature;
    T* to = page + (value ? p.value_offset : 0) + feature / p.head_dim * p.head_stride +
            feature % p.head_dim;
    *reinterpret_cast<Vector<T>*>(to) = *reinterpret_cast<const Vector<T>*>(from);
  }
}

// The same an element at a time, of rows that begin anywhere, and of keys that turn.
template <class T>
__global__ void write_kv_kernel(NewKeys p) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < p.heads * p.head_dim;
       i += static_cast<int>(blockDim.x))
    store_element<T>(p, token, i, p.place(slot));
}

// One warp for each key or value of a head; a token in grid.x.
template <class T, class Stored>
__global__ void write_in_8_bits_kernel(NewKeys p) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int32_t slot = p.slots[token];
  if (slot < 0) return;
  for (int i = static_cast<int>(threadIdx.x) / kWarpSize; i < 2 * p.heads;
       i += static_cast<int>(blockDim.x) / kWarpSize)
    store_head_in_8_bits<T, Stored>(p, token, i % p.heads, i >= p.heads, p.place(slot));
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
  const NewKeys p = new_keys(args);
  with_type(args.k.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const unsigned tokens = static_cast<unsigned>(args.k.dim(0));
    const auto size = static_cast<int64_t>(sizeof(T));
    if (p.scales != nullptr) {
      with_8_bits(p.page_type, [&](auto stored) {
        TANDEM_LAUNCH((write_in_8_bits_kernel<T, decltype(stored)>), tokens, 256, 0, stream_of(ctx),
                      p);
      });
    } else if (p.turn.angles == nullptr && p.head_dim % kVector<T> == 0 &&
               aligned(p.k, p.k_stride * size) && aligned(p.v, p.v_stride * size) &&
               aligned(p.pages, 0)) {
      TANDEM_LAUNCH(write_vectors_kernel<T>, tokens, 128, 0, stream_of(ctx), p);
    } else {
      TANDEM_LAUNCH(write_kv_kernel<T>, tokens, 128, 0, stream_of(ctx), p);
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
