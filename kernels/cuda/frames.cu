// Frames of sound, and activations by themselves: a block for each row.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kFrameThreads = 128;

template <class T>
__global__ void __launch_bounds__(kFrameThreads)
    compress_kernel(const float* x, int64_t x_stride, int size, float factor, float eps, T* out,
                    int64_t out_stride) {
  wait_for_earlier_kernels();
  __shared__ float scratch[33];
  const int64_t row = blockIdx.x;
  const float* from = x + row * x_stride;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kFrameThreads) sum += from[i];
  const float mean = block_sum(sum, scratch) / static_cast<float>(size);
  __syncthreads();
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kFrameThreads)
    squares += (from[i] - mean) * (from[i] - mean);
  const float root = sqrtf(block_sum(squares, scratch) / static_cast<float>(size) + eps);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kFrameThreads)
    out[row * out_stride + i] = from_float<T>(asinhf(factor * ((from[i] - mean) / root)));
}

}  // namespace

void apply_activation(Context& ctx, const ops::ApplyActivationArgs& args) {
  activate_rows(ctx, args.activation, args.x);
}

void compress_frames(Context& ctx, const ops::CompressFramesArgs& args) {
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(compress_kernel<T>, static_cast<unsigned>(args.out.dim(0)), kFrameThreads, 0,
                  stream_of(ctx), args.x.data<float>(), args.x.row_stride(),
                  static_cast<int>(args.x.dim(1)), args.factor, args.eps,
                  static_cast<T*>(args.out.raw()), args.out.row_stride());
  });
  after_launch("compress_frames");
}

}  // namespace tandem::cuda
