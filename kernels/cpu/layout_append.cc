// The CPU's appending of rows to pages by request and position.
#include <cstring>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/layouts/append_slots.h"
#include "kernels/layouts/strided_attention.h"

namespace tandem::cpu {
namespace {

// Rows of [rows, heads, dim] to their slots of one side of a cache.
void append(Context& ctx, const Tensor& rows, const std::vector<int64_t>& slots,
            const KeySide& side, const CacheSides& cache) {
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, rows.dim(0), int64_t{cache.kv_heads} * side.dim * 8, [&](int64_t t) {
    const int64_t slot = slots[static_cast<size_t>(t)];
    const int64_t at = slot / cache.page_size * side.page + slot % cache.page_size * side.token;
    for (int64_t h = 0; h < cache.kv_heads; ++h) {
      const float* from = rows.row<float>(t) + h * side.dim;
      void* to = const_cast<void*>(side.from(at + h * side.head, size_of(cache.type)).data);
      if (cache.type == DType::kF32)
        std::memcpy(to, from, static_cast<size_t>(side.dim) * sizeof(float));
      else
        isa.to_bf16(from, side.dim, static_cast<uint16_t*>(to));
    }
  });
}

}  // namespace

void append_pages(Context& ctx, const ops::AppendPagesArgs& args) {
  const CacheSides sides = sides_of(args.cache);
  const std::vector<int64_t> slots =
      append_slots(args.batch_indices, args.positions, args.table, sides.page_size);
  append(ctx, args.append_key, slots, sides.k, sides);
  append(ctx, args.append_value, slots, sides.v, sides);
}

void append_latent(Context& ctx, const ops::AppendLatentArgs& args) {
  const CacheSides sides = sides_of(args.cache, args.append_ckv.dim(1));
  const std::vector<int64_t> slots =
      append_slots(args.batch_indices, args.positions, args.table, sides.page_size);
  append(ctx, args.append_ckv, slots, sides.k, sides);
  append(ctx, args.append_kpe, slots, sides.v, sides);
}

}  // namespace tandem::cpu
