// Rows to pages by request and position.
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/layouts/append_slots.h"
#include "kernels/layouts/strided_attention.h"

namespace tandem::cuda {
namespace {

constexpr int kAppendThreads = 128;

// A row in grid.x.
template <class T>
__global__ void append_kernel(const T* rows, int64_t stride, const int64_t* slots,
                              int64_t page_size, KeySide side, int heads) {
  wait_for_earlier_kernels();
  const int64_t slot = slots[blockIdx.x];
  T* const to = static_cast<T*>(const_cast<void*>(side.data)) + slot / page_size * side.page +
                slot % page_size * side.token;
  for (int i = static_cast<int>(threadIdx.x); i < heads * side.dim;
       i += static_cast<int>(blockDim.x))
    to[i / side.dim * side.head + i % side.dim] = rows[blockIdx.x * stride + i];
}

void append(Context& ctx, const Tensor& rows, const Tensor& slots, const KeySide& side,
            const CacheSides& cache) {
  with_type(cache.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(append_kernel<T>, static_cast<unsigned>(rows.dim(0)), kAppendThreads, 0,
                  stream_of(ctx), static_cast<const T*>(rows.raw()), rows.row_stride(),
                  slots.data<int64_t>(), cache.page_size, side, cache.kv_heads);
  });
}

Tensor slots_there(Context& ctx, const std::vector<int64_t>& slots) {
  const Tensor there = ctx.make({static_cast<int64_t>(slots.size())}, DType::kI64);
  ctx.backend().copy_in(Tensor::borrow(slots), there);
  return there;
}

}  // namespace

void append_pages(Context& ctx, const ops::AppendPagesArgs& args) {
  const CacheSides sides = sides_of(args.cache);
  const Tensor slots = slots_there(
      ctx, append_slots(args.batch_indices, args.positions, args.table, sides.page_size));
  append(ctx, args.append_key, slots, sides.k, sides);
  append(ctx, args.append_value, slots, sides.v, sides);
  after_launch("append_pages");
}

void append_latent(Context& ctx, const ops::AppendLatentArgs& args) {
  const CacheSides sides = sides_of(args.cache, args.append_ckv.dim(1));
  const Tensor slots = slots_there(
      ctx, append_slots(args.batch_indices, args.positions, args.table, sides.page_size));
  append(ctx, args.append_ckv, slots, sides.k, sides);
  append(ctx, args.append_kpe, slots, sides.v, sides);
  after_launch("append_latent");
}

}  // namespace tandem::cuda
