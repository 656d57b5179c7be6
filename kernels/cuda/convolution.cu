// Windows of convolutions: a block for each row of the output.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

template <class In, class Out>
__global__ void windows_kernel(const In* x, int64_t x_stride, int64_t size, const int32_t* starts,
                               const int32_t* out_starts, int sequences, int width, int stride,
                               int padding, Out* out, int64_t out_stride) {
  wait_for_earlier_kernels();
  const auto row = static_cast<int32_t>(blockIdx.x);
  int sequence = 0;  // steps have few
  while (sequence + 1 < sequences && out_starts[sequence + 1] <= row) ++sequence;
  const int32_t begin = starts[sequence], end = starts[sequence + 1];
  const int32_t first = begin + (row - out_starts[sequence]) * stride - padding;
  for (int64_t i = threadIdx.x; i < size * width; i += blockDim.x) {
    const int64_t from = first + i % width;
    const bool there = from >= begin && from < end;
    out[row * out_stride + i] =
        from_float<Out>(there ? to_float(x[from * x_stride + i / width]) : 0.0f);
  }
}

}  // namespace

void conv_windows(Context& ctx, const ops::ConvWindowsArgs& args) {
  with_type(args.x.dtype(), [&](auto in) {
    with_type(args.out.dtype(), [&](auto out) {
      using In = typename decltype(in)::type;
      using Out = typename decltype(out)::type;
      TANDEM_LAUNCH((windows_kernel<In, Out>), static_cast<unsigned>(args.out.dim(0)), kThreads, 0,
                    stream_of(ctx), static_cast<const In*>(args.x.raw()), args.x.row_stride(),
                    args.x.dim(1), args.start_loc.data<int32_t>(), args.out_starts.data<int32_t>(),
                    static_cast<int>(args.start_loc.dim(0)) - 1, args.width, args.stride,
                    args.padding, static_cast<Out*>(args.out.raw()), args.out.row_stride());
    });
  });
  after_launch("conv_windows");
}

}  // namespace tandem::cuda
