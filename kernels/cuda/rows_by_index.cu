// Rows by index: gathered, scattered. A block for each.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void gather_kernel(const T* x, int64_t x_stride, const int32_t* rows, T* out,
                              int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t from = rows[blockIdx.x];
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    out[blockIdx.x * out_stride + i] = x[from * x_stride + i];
}

template <class T>
__global__ void scatter_kernel(const T* x, int64_t x_stride, const int32_t* rows, T* out,
                               int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t to = rows[blockIdx.x];
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    out[to * out_stride + i] = x[blockIdx.x * x_stride + i];
}

}  // namespace

void gather_rows(Context& ctx, const ops::GatherRowsArgs& args) {
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(gather_kernel<T>, static_cast<unsigned>(args.out.dim(0)), kThreads, 0,
                  stream_of(ctx), static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                  args.rows.data<int32_t>(), static_cast<T*>(args.out.raw()), args.out.row_stride(),
                  args.out.dim(1));
  });
  after_launch("gather_rows");
}

void scatter_rows(Context& ctx, const ops::ScatterRowsArgs& args) {
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(scatter_kernel<T>, static_cast<unsigned>(args.x.dim(0)), kThreads, 0,
                  stream_of(ctx), static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                  args.rows.data<int32_t>(), static_cast<T*>(args.out.raw()), args.out.row_stride(),
                  args.x.dim(1));
  });
  after_launch("scatter_rows");
}

}  // namespace tandem::cuda
