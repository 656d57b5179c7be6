// The CPU's writes to the KV cache, and copies of its blocks.
#include <cstring>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/rotary.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

void store_head(const IsaKernels&, const float* from, int64_t n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}
void store_head(const IsaKernels& isa, const float* from, int64_t n, uint16_t* to) {
  isa.to_bf16(from, n, to);
}

template <class T>
void write(Context& ctx, const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  const int32_t* slots = args.slot_mapping.data<int32_t>();
  T* pages = args.pages.data.data<T>();
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, args.k.dim(0), s.num_heads * s.head_dim * 12, [&](int64_t t) {
    if (slots[t] < 0) return;
    const int64_t block = slots[t] / s.block_size, offset = slots[t] % s.block_size;
    const TokenAngles angles = angles_of(args.rotary, t);
    T* to = pages + block * s.block + offset * s.token;
    for (int64_t h = 0; h < s.num_heads; ++h) {
      const float* k = args.k.row<float>(t) + h * s.head_dim;
      T* key = to + h * s.head;
      if (angles.turned > 0) turn_head(k, angles, key);
      store_head(isa, k + angles.turned, s.head_dim - angles.turned, key + angles.turned);
      store_head(isa, args.v.row<float>(t) + h * s.head_dim, s.head_dim, to + s.kv + h * s.head);
    }
  });
}

}  // namespace

void write_kv(Context& ctx, const ops::WriteKvArgs& args) {
  if (args.pages.data.dtype() == DType::kF32) {
    write<float>(ctx, args);
  } else {
    write<uint16_t>(ctx, args);
  }
}

// A task copies one slice of every block, in the order of the pairs, so that a block may be written
// and then read.
void copy_blocks(Context& ctx, const ops::CopyBlocksArgs& args) {
  int64_t block = static_cast<int64_t>(size_of(args.src.dtype()));
  for (int i = 1; i < args.src.rank(); ++i) block *= args.src.dim(i);
  const int32_t* pairs = args.pairs.data<int32_t>();
  const std::byte* src = static_cast<const std::byte*>(args.src.raw());
  std::byte* dst = static_cast<std::byte*>(args.dst.raw());
  auto job = [&](int64_t slice, int) {
    const int64_t begin = slice * kTaskBytes, bytes = std::min(kTaskBytes, block - begin);
    for (int64_t i = 0; i < args.pairs.dim(0); i += 2) {
      const std::byte* from = src + pairs[i] * block + begin;
      std::byte* to = dst + pairs[i + 1] * block + begin;
      if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  };
  run_tasks(ctx, ceil_div(block, kTaskBytes), job);
}

}  // namespace tandem::cpu
