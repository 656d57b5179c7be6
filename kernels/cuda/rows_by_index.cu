// Rows by index: gathered, scattered, combined; ranges of them added. A block for each.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kIndexThreads = 128;

// `rows` counts those of x, or, if kScatter, those of out.
template <class T, bool kScatter>
__global__ void copy_kernel(const T* x, int64_t x_stride, const int32_t* rows, T* out,
                            int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t block = blockIdx.x, row = rows[blockIdx.x];
  const T* from = x + (kScatter ? block : row) * x_stride;
  T* to = out + (kScatter ? row : block) * out_stride;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) to[i] = from[i];
}

template <bool kScatter>
void copy_rows(Context& ctx, const Tensor& x, const Tensor& rows, const Tensor& out) {
  with_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH((copy_kernel<T, kScatter>), static_cast<unsigned>(rows.dim(0)), kIndexThreads, 0,
                  stream_of(ctx), static_cast<const T*>(x.raw()), x.row_stride(),
                  rows.data<int32_t>(), static_cast<T*>(out.raw()), out.row_stride(), out.dim(1));
  });
}

template <class T>
__global__ void combine_kernel(const T* x, int64_t x_stride, const int32_t* places,
                               const float* factors, int each, T* out, int64_t out_stride,
                               int64_t size) {
  wait_for_earlier_kernels();
  const int64_t block = blockIdx.x;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    float sum = 0.0f;
    for (int n = 0; n < each; ++n) {
      const int32_t place = places[block * each + n];
      if (place >= 0) sum = fmaf(factors[block * each + n], to_float(x[place * x_stride + i]), sum);
    }
    out[block * out_stride + i] = from_float<T>(sum);
  }
}

// Blocks for the columns too: there may be one range, of many rows.
template <class T, class Sum>
__global__ void sum_kernel(const T* x, int64_t x_stride, const int32_t* ranges, Sum* out,
                           int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const int64_t begin = ranges[2 * blockIdx.x], end = ranges[2 * blockIdx.x + 1];
  float sum = 0.0f;
  for (int64_t row = begin; row < end; ++row) sum += to_float(x[row * x_stride + i]);
  out[blockIdx.x * out_stride + i] = from_float<Sum>(sum);
}

template <class T, class Sum>
void add_ranges(Context& ctx, const ops::SumRangesArgs& args) {
  const auto blocks = static_cast<unsigned>((args.out.dim(1) + kIndexThreads - 1) / kIndexThreads);
  TANDEM_LAUNCH((sum_kernel<T, Sum>), dim3(static_cast<unsigned>(args.ranges.dim(0)), blocks),
                kIndexThreads, 0, stream_of(ctx), static_cast<const T*>(args.x.raw()),
                args.x.row_stride(), args.ranges.data<int32_t>(), static_cast<Sum*>(args.out.raw()),
                args.out.row_stride(), args.out.dim(1));
}

}  // namespace

void combine_rows(Context& ctx, const ops::CombineRowsArgs& args) {
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(combine_kernel<T>, static_cast<unsigned>(args.out.dim(0)), kIndexThreads, 0,
                  stream_of(ctx), static_cast<const T*>(args.x.raw()),
                  args.x.empty() ? 0 : args.x.row_stride(), args.places.data<int32_t>(),
                  args.factors.data<float>(), static_cast<int>(args.places.dim(1)),
                  static_cast<T*>(args.out.raw()), args.out.row_stride(), args.out.dim(1));
  });
  after_launch("combine_rows");
}

void sum_ranges(Context& ctx, const ops::SumRangesArgs& args) {
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.out.dtype() == DType::kF32)
      add_ranges<T, float>(ctx, args);
    else
      add_ranges<T, T>(ctx, args);
  });
  after_launch("sum_ranges");
}

void gather_rows(Context& ctx, const ops::GatherRowsArgs& args) {
  copy_rows</*kScatter=*/false>(ctx, args.x, args.rows, args.out);
  after_launch("gather_rows");
}

void scatter_rows(Context& ctx, const ops::ScatterRowsArgs& args) {
  copy_rows</*kScatter=*/true>(ctx, args.x, args.rows, args.out);
  after_launch("scatter_rows");
}

}  // namespace tandem::cuda
