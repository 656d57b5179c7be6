// Convolutions and norms of each feature by itself. A block of the norm has some features of a
// sequence, whose rows its threads share; of the convolution, a row.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kFeatureThreads = 256;
constexpr int kTogether = 32;  // features of a block: lanes of a warp
constexpr int kFeatureRows = kFeatureThreads / kTogether;

// The sum over the warps of each lane's value; every thread gets its lane's. A fixed order.
__device__ __forceinline__ float sum_of_lane(float x, float* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kTogether;
  scratch[threadIdx.x] = x;
  __syncthreads();
  float sum = 0;
  for (int r = 0; r < kFeatureRows; ++r) sum += scratch[r * kTogether + lane];
  __syncthreads();
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kFeatureThreads)
    feature_norm_kernel(const T* x, int64_t x_stride, int size, const int32_t* starts,
                        const float* weight, const float* bias, float eps, T* out,
                        int64_t out_stride) {
  wait_for_earlier_kernels();
  __shared__ float scratch[kFeatureThreads];
  const int feature =
      static_cast<int>(blockIdx.x) * kTogether + static_cast<int>(threadIdx.x) % kTogether;
  const int first = static_cast<int>(threadIdx.x) / kTogether;
  const int32_t begin = starts[blockIdx.y], end = starts[blockIdx.y + 1];
  if (begin == end) return;
  const bool there = feature < size;
  const auto rows = static_cast<float>(end - begin);
  float sum = 0;
  for (int64_t t = begin + first; there && t < end; t += kFeatureRows)
    sum += to_float(x[t * x_stride + feature]);
  const float mean = sum_of_lane(sum, scratch) / rows;
  float squares = 0;
  for (int64_t t = begin + first; there && t < end; t += kFeatureRows) {
    const float off = to_float(x[t * x_stride + feature]) - mean;
    squares += off * off;
  }
  const float factor = 1.0f / sqrtf(sum_of_lane(squares, scratch) / rows + eps);
  for (int64_t t = begin + first; there && t < end; t += kFeatureRows)
    out[t * out_stride + feature] = from_float<T>(
        (to_float(x[t * x_stride + feature]) - mean) * factor * weight[feature] + bias[feature]);
}

struct DepthwiseShape {
  int sequences, features, x_columns, out_columns, height, width, stride, row_padding,
      column_padding;
  bool single;  // all features read the same value
  Activation activation;
};

template <class In, class Out>
__global__ void __launch_bounds__(kFeatureThreads)
    depthwise_kernel(DepthwiseShape s, const In* x, int64_t x_stride, const int32_t* starts,
                     const int32_t* out_starts, const float* weight, const float* bias, Out* out,
                     int64_t out_stride) {
  wait_for_earlier_kernels();
  const auto row = static_cast<int32_t>(blockIdx.x);
  int sequence = 0;  // steps have few
  while (sequence + 1 < s.sequences && out_starts[sequence + 1] <= row) ++sequence;
  const int32_t begin = starts[sequence], end = starts[sequence + 1];
  const int32_t first = begin + (row - out_starts[sequence]) * s.stride - s.row_padding;
  const int size = s.out_columns * s.features;
  for (int at = static_cast<int>(threadIdx.x); at < size; at += kFeatureThreads) {
    const int column = at / s.features, c = at % s.features;
    float sum = bias[c];
    for (int i = 0; i < s.height; ++i) {
      const int64_t from_row = first + i;
      if (from_row < begin || from_row >= end) continue;
      for (int j = 0; j < s.width; ++j) {
        const int from = column * s.stride + j - s.column_padding;
        if (from < 0 || from >= s.x_columns) continue;
        const In value = x[from_row * x_stride + (s.single ? from : from * s.features + c)];
        sum += weight[(i * s.width + j) * s.features + c] * to_float(value);
      }
    }
    out[row * out_stride + at] = from_float<Out>(activate(s.activation, sum));
  }
}

}  // namespace

void feature_norm(Context& ctx, const ops::FeatureNormArgs& args) {
  const auto size = static_cast<int>(args.x.dim(1));
  const dim3 grid(static_cast<unsigned>(ceil_div(size, kTogether)),
                  static_cast<unsigned>(args.start_loc.dim(0) - 1));
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(feature_norm_kernel<T>, grid, kFeatureThreads, 0, stream_of(ctx),
                  static_cast<const T*>(args.x.raw()), args.x.row_stride(), size,
                  args.start_loc.data<int32_t>(), args.weight.data<float>(),
                  args.bias.data<float>(), args.eps, static_cast<T*>(args.out.raw()),
                  args.out.row_stride());
  });
  after_launch("feature_norm");
}

void depthwise_conv(Context& ctx, const ops::DepthwiseConvArgs& args) {
  const DepthwiseShape shape{static_cast<int>(args.start_loc.dim(0)) - 1,
                             static_cast<int>(args.weight.dim(1)),
                             args.x_columns,
                             args.out_columns,
                             args.height,
                             args.width,
                             args.stride,
                             args.row_padding,
                             args.column_padding,
                             args.x.dim(1) == args.x_columns,
                             args.activation};
  with_type(args.x.dtype(), [&](auto in) {
    with_type(args.out.dtype(), [&](auto out) {
      using In = typename decltype(in)::type;
      using Out = typename decltype(out)::type;
      TANDEM_LAUNCH((depthwise_kernel<In, Out>), static_cast<unsigned>(args.out.dim(0)),
                    kFeatureThreads, 0, stream_of(ctx), shape, static_cast<const In*>(args.x.raw()),
                    args.x.row_stride(), args.start_loc.data<int32_t>(),
                    args.out_starts.data<int32_t>(), args.weight.data<float>(),
                    args.bias.data<float>(), static_cast<Out*>(args.out.raw()),
                    args.out.row_stride());
    });
  });
  after_launch("depthwise_conv");
}

}  // namespace tandem::cuda
