// The CPU's writes to the KV cache, and copies of its blocks.
#include <algorithm>
#include <cstring>
#include <vector>

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

// Where the key of a token's first head goes.
int64_t place_of(const KvStrides& s, int32_t slot) {
  return slot / s.block_size * s.block + slot % s.block_size * s.token;
}

template <class T>
void write(Context& ctx, const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  const int32_t* slots = args.slot_mapping.data<int32_t>();
  T* pages = args.pages.data.data<T>();
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, args.k.dim(0), s.num_heads * s.head_dim * 12, [&](int64_t t) {
    if (slots[t] < 0) return;
    const TokenAngles angles = angles_of(args.rotary, t);
    T* to = pages + place_of(s, slots[t]);
    for (int64_t h = 0; h < s.num_heads; ++h) {
      const float* k = args.k.row<float>(t) + h * s.head_dim;
      T* key = to + h * s.head;
      if (angles.turned > 0) turn_head(k, angles, key);
      store_head(isa, k + angles.turned, s.head_dim - angles.turned, key + angles.turned);
      store_head(isa, args.v.row<float>(t) + h * s.head_dim, s.head_dim, to + s.kv + h * s.head);
    }
  });
}

// A head's scale is of its turned key.
void write_i8(Context& ctx, const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  const int32_t* slots = args.slot_mapping.data<int32_t>();
  int8_t* pages = args.pages.data.data<int8_t>();
  float* scales = args.pages.scales.data<float>();
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, args.k.dim(0), s.num_heads * s.head_dim * 12, [&](int64_t t) {
    if (slots[t] < 0) return;
    const auto store = [&](const float* from, int64_t at) {
      scales[at / s.head_dim] = isa.to_i8(from, s.head_dim, pages + at);
    };
    const TokenAngles angles = angles_of(args.rotary, t);
    std::vector<float> turned(static_cast<size_t>(angles.turned > 0 ? s.head_dim : 0));
    const int64_t place = place_of(s, slots[t]);
    for (int64_t h = 0; h < s.num_heads; ++h) {
      const float* k = args.k.row<float>(t) + h * s.head_dim;
      if (angles.turned > 0) {
        std::copy_n(k, s.head_dim, turned.data());
        turn_head(k, angles, turned.data());
      }
      store(angles.turned > 0 ? turned.data() : k, place + h * s.head);
      store(args.v.row<float>(t) + h * s.head_dim, place + s.kv + h * s.head);
    }
  });
}

}  // namespace

void write_kv(Context& ctx, const ops::WriteKvArgs& args) {
  switch (args.pages.data.dtype()) {
    case DType::kF32: return write<float>(ctx, args);
    case DType::kI8: return write_i8(ctx, args);
    default: return write<uint16_t>(ctx, args);
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
