// Packing of masks.
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kPackThreads = 128;

// One thread for each byte. starts: where it begins in x, and where its segment ends.
__global__ void pack_kernel(const uint8_t* x, const int32_t* starts, int64_t bytes,
                            uint8_t* packed) {
  wait_for_earlier_kernels();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= bytes) return;
  unsigned byte = 0;
  const int32_t begin = starts[2 * i], end = starts[2 * i + 1];
  for (int bit = 0; bit < 8 && begin + bit < end; ++bit)
    byte |= (x[begin + bit] != 0 ? 1u : 0u) << bit;
  packed[i] = static_cast<uint8_t>(byte);
}

}  // namespace

void pack_bits(Context& ctx, const ops::PackBitsArgs& args) {
  const std::vector<int32_t> whole = {0, static_cast<int32_t>(args.x.dim(0))};
  const bool segmented = args.indptr.rank() > 0;
  const int32_t* at = segmented ? args.indptr.data<int32_t>() : whole.data();
  const int64_t segments = segmented ? args.indptr.dim(0) - 1 : 1;
  std::vector<int32_t> starts;
  for (int64_t s = 0; s < segments; ++s)
    for (int64_t first = at[s]; first < at[s + 1]; first += 8) {
      starts.push_back(static_cast<int32_t>(first));
      starts.push_back(at[s + 1]);
    }
  const Tensor there = ctx.make({static_cast<int64_t>(starts.size())}, DType::kI32);
  ctx.backend().copy_in(Tensor::borrow(starts), there);
  const int64_t bytes = args.packed.dim(0);
  TANDEM_LAUNCH(pack_kernel, static_cast<unsigned>(ceil_div(bytes, kPackThreads)), kPackThreads, 0,
                stream_of(ctx), args.x.data<uint8_t>(), there.data<int32_t>(), bytes,
                args.packed.data<uint8_t>());
  after_launch("pack_bits");
}

}  // namespace tandem::cuda
