// Windows of convolutions: a block for each row of the output. The norm over a sequence: blocks
// that share its rows, first for their sums, then for what becomes of them.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kConvolutionThreads = 128;

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

// Blocks of a sequence. A sum depends on the sequence alone.
constexpr int kParts = 32;

struct NormRows {
  int32_t begin, end;
};

__device__ __forceinline__ NormRows rows_of_part(const int32_t* starts, int sequence, int part) {
  const int64_t begin = starts[sequence], rows = starts[sequence + 1] - begin;
  return {static_cast<int32_t>(begin + rows * part / kParts),
          static_cast<int32_t>(begin + rows * (part + 1) / kParts)};
}

// parts[sequence][part] = the mean of the part's values, and the sum of their squared distances
// from it.
template <class T>
__global__ void __launch_bounds__(kConvolutionThreads)
    moments_kernel(const T* x, int64_t stride, int size, const int32_t* starts, float* parts) {
  wait_for_earlier_kernels();
  __shared__ float scratch[33];
  const int part = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.y);
  const auto [begin, end] = rows_of_part(starts, sequence, part);
  const int64_t count = static_cast<int64_t>(end - begin) * size;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kConvolutionThreads)
    sum += to_float(x[(begin + i / size) * stride + i % size]);
  const float mean = count > 0 ? block_sum(sum, scratch) / static_cast<float>(count) : 0.0f;
  __syncthreads();
  float squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += kConvolutionThreads) {
    const float off = to_float(x[(begin + i / size) * stride + i % size]) - mean;
    squares += off * off;
  }
  if (count > 0) squares = block_sum(squares, scratch);
  if (threadIdx.x != 0) return;
  float* out = parts + 2 * (sequence * kParts + part);
  out[0] = mean;
  out[1] = squares;
}

template <class T>
__global__ void __launch_bounds__(kConvolutionThreads)
    sequence_norm_kernel(const T* x, int64_t x_stride, int size, const int32_t* starts,
                         const float* parts, const float* weight, const float* bias, float eps,
                         T* out, int64_t out_stride) {
  wait_for_earlier_kernels();
  const int sequence = static_cast<int>(blockIdx.y);
  parts += 2 * sequence * kParts;
  // Parts join one after the other (Chan et al.): no large numbers are subtracted.
  float mean = 0, squares = 0, before = 0;
  for (int p = 0; p < kParts; ++p) {
    const auto [begin, end] = rows_of_part(starts, sequence, p);
    if (end == begin) continue;
    const float count = static_cast<float>(end - begin) * static_cast<float>(size);
    const float step = parts[2 * p] - mean, share = count / (before + count);
    mean += step * share;
    squares += parts[2 * p + 1] + step * step * before * share;
    before += count;
  }
  if (before == 0) return;
  const float factor = 1.0f / sqrtf(squares / before + eps);
  const auto [begin, end] = rows_of_part(starts, sequence, static_cast<int>(blockIdx.x));
  const int64_t count = static_cast<int64_t>(end - begin) * size;
  for (int64_t i = threadIdx.x; i < count; i += kConvolutionThreads) {
    const int64_t row = begin + i / size, c = i % size;
    out[row * out_stride + c] =
        from_float<T>((to_float(x[row * x_stride + c]) - mean) * factor * weight[c] + bias[c]);
  }
}

}  // namespace

void conv_windows(Context& ctx, const ops::ConvWindowsArgs& args) {
  with_type(args.x.dtype(), [&](auto in) {
    with_type(args.out.dtype(), [&](auto out) {
      using In = typename decltype(in)::type;
      using Out = typename decltype(out)::type;
      TANDEM_LAUNCH((windows_kernel<In, Out>), static_cast<unsigned>(args.out.dim(0)),
                    kConvolutionThreads, 0, stream_of(ctx), static_cast<const In*>(args.x.raw()),
                    args.x.row_stride(), args.x.dim(1), args.start_loc.data<int32_t>(),
                    args.out_starts.data<int32_t>(), static_cast<int>(args.start_loc.dim(0)) - 1,
                    args.width, args.stride, args.padding, static_cast<Out*>(args.out.raw()),
                    args.out.row_stride());
    });
  });
  after_launch("conv_windows");
}

void sequence_norm(Context& ctx, const ops::SequenceNormArgs& args) {
  const int64_t sequences = args.start_loc.dim(0) - 1;
  const Tensor parts = ctx.make({2 * sequences * kParts}, DType::kF32);
  const dim3 grid(kParts, static_cast<unsigned>(sequences));
  const auto size = static_cast<int>(args.x.dim(1));
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = static_cast<const T*>(args.x.raw());
    const int32_t* starts = args.start_loc.data<int32_t>();
    TANDEM_LAUNCH(moments_kernel<T>, grid, kConvolutionThreads, 0, stream_of(ctx), x,
                  args.x.row_stride(), size, starts, parts.data<float>());
    TANDEM_LAUNCH(sequence_norm_kernel<T>, grid, kConvolutionThreads, 0, stream_of(ctx), x,
                  args.x.row_stride(), size, starts, parts.data<float>(), args.weight.data<float>(),
                  args.bias.data<float>(), args.eps, static_cast<T*>(args.out.raw()),
                  args.out.row_stride());
  });
  after_launch("sequence_norm");
}

}  // namespace tandem::cuda
