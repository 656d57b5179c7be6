// channel_attention: a block is some features of a group of a picture, whose weights it sums up row
// by row in shared memory, and then applies to the values.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kChannelThreads = 256;
constexpr int kChannelFeatures = 8;  // of a block
constexpr int kChannelRows = 4;      // in shared memory at a time

template <class T>
struct ChannelParams {
  const T *q, *k, *v;
  T* out;
  int64_t q_stride, k_stride, v_stride, out_stride;
  int64_t points;
  int width, groups;
  float scale;
};

// Rows [row, row + count) of `columns` features from `from` on.
template <class T>
__device__ void load_rows(const T* from, int64_t stride, int count, int columns, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * columns; i += kChannelThreads)
    to[i] = to_float(from[i / columns * stride + i % columns]);
}

// weights[c] of this thread becomes the softmax of a row.
__device__ __forceinline__ void softmax_of_row(float* row, int width, float scale) {
  float top = -INFINITY, sum = 0.0f;
  for (int c = 0; c < width; ++c) top = fmaxf(top, row[c] * scale);
  for (int c = 0; c < width; ++c) sum += row[c] = expf(row[c] * scale - top);
  for (int c = 0; c < width; ++c) row[c] /= sum;
}

template <class T>
__global__ void __launch_bounds__(kChannelThreads) channel_kernel(ChannelParams<T> p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  const int group = static_cast<int>(blockIdx.x) % p.groups, width = p.width;
  const int64_t first = int64_t{static_cast<int>(blockIdx.x) / p.groups} * p.points,
                column = int64_t{group} * width;
  const int from = static_cast<int>(blockIdx.y) * kChannelFeatures,
            features = min(kChannelFeatures, width - from);
  float* const weights = reinterpret_cast<float*>(shared);  // [features, width]
  float* const rows = weights + kChannelFeatures * width;   // [kChannelRows, width]
  float* const queries = rows + kChannelRows * width;       // [kChannelRows, features]
  for (int i = static_cast<int>(threadIdx.x); i < features * width; i += kChannelThreads)
    weights[i] = 0.0f;
  for (int64_t t = 0; t < p.points; t += kChannelRows) {
    const int count = static_cast<int>(min(int64_t{kChannelRows}, p.points - t));
    load_rows(p.k + (first + t) * p.k_stride + column, p.k_stride, count, width, rows);
    load_rows(p.q + (first + t) * p.q_stride + column + from, p.q_stride, count, features, queries);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < features * width; i += kChannelThreads)
      for (int r = 0; r < count; ++r)
        weights[i] =
            fmaf(queries[r * features + i / width], rows[r * width + i % width], weights[i]);
    __syncthreads();
  }
  if (static_cast<int>(threadIdx.x) < features)
    softmax_of_row(weights + static_cast<int>(threadIdx.x) * width, width, p.scale);
  __syncthreads();
  for (int64_t t = 0; t < p.points; t += kChannelRows) {
    const int count = static_cast<int>(min(int64_t{kChannelRows}, p.points - t));
    load_rows(p.v + (first + t) * p.v_stride + column, p.v_stride, count, width, rows);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count * features; i += kChannelThreads) {
      const int r = i / features, c = i % features;
      float sum = 0.0f;
      for (int other = 0; other < width; ++other)
        sum = fmaf(weights[c * width + other], rows[r * width + other], sum);
      p.out[(first + t + r) * p.out_stride + column + from + c] = from_float<T>(sum);
    }
    __syncthreads();
  }
}

}  // namespace

void channel_attention(Context& ctx, const ops::ChannelAttentionArgs& args) {
  const int groups = static_cast<int>(args.q.dim(1)) / args.width;
  const auto shared =
      sizeof(float) * static_cast<size_t>((kChannelFeatures + kChannelRows) * args.width +
                                          kChannelRows * kChannelFeatures);
  const dim3 grid(static_cast<unsigned>(args.q.dim(0) / args.points * groups),
                  static_cast<unsigned>(ceil_div(args.width, kChannelFeatures)));
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto at = [](const Tensor& t) { return static_cast<const T*>(t.raw()); };
    const ChannelParams<T> params{at(args.q),
                                  at(args.k),
                                  at(args.v),
                                  static_cast<T*>(args.out.raw()),
                                  args.q.row_stride(),
                                  args.k.row_stride(),
                                  args.v.row_stride(),
                                  args.out.row_stride(),
                                  args.points,
                                  args.width,
                                  groups,
                                  args.scale};
    TANDEM_LAUNCH(channel_kernel<T>, grid, kChannelThreads, shared, stream_of(ctx), params);
  });
  after_launch("channel_attention");
}

}  // namespace tandem::cuda
