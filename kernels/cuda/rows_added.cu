// add_rows: a block for each row.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kAddThreads = 128;

// (`out` may be one of the others.)
template <class T>
__global__ void add_kernel(const T* x, int64_t x_stride, const T* y, int64_t y_stride, T* out,
                           int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    out[row * out_stride + i] =
        from_float<T>(to_float(x[row * x_stride + i]) + to_float(y[row * y_stride + i]));
}

}  // namespace

void add_rows(Context& ctx, const ops::AddRowsArgs& args) {
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(add_kernel<T>, static_cast<unsigned>(args.x.dim(0)), kAddThreads, 0,
                  stream_of(ctx), static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                  static_cast<const T*>(args.y.raw()), args.y.row_stride(),
                  static_cast<T*>(args.out.raw()), args.out.row_stride(), args.x.dim(1));
  });
  after_launch("add_rows");
}

}  // namespace tandem::cuda
