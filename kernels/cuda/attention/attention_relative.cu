// relative_attention: a block is a query of a head. Its threads share the keys, then the elements
// of the sum.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kRelativeThreads = 128;

template <class T>
struct RelativeParams {
  const T *q, *k, *v, *distances;
  T* out;
  int64_t q_stride, k_stride, v_stride, d_stride, out_stride;
  const int32_t* indptr;
  const float *q_bias, *d_bias;
  int sequences, head_dim;
  int32_t zero;
  float scale;
};

// The largest value of all threads; every thread gets it.
__device__ __forceinline__ float block_max(float x, float* scratch) {
  scratch[threadIdx.x] = x;
  __syncthreads();
  for (int step = kRelativeThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step)
      scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + step]);
    __syncthreads();
  }
  const float out = scratch[0];
  __syncthreads();
  return out;
}

template <class T>
__global__ void __launch_bounds__(kRelativeThreads) relative_kernel(RelativeParams<T> p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  __shared__ float scratch[kRelativeThreads];
  const auto row = static_cast<int32_t>(blockIdx.x);
  int sequence = 0;  // steps have few
  while (sequence + 1 < p.sequences && p.indptr[sequence + 1] <= row) ++sequence;
  const int32_t begin = p.indptr[sequence], keys = p.indptr[sequence + 1] - begin;
  const int64_t column = int64_t{static_cast<int>(blockIdx.y)} * p.head_dim;
  float* const q = reinterpret_cast<float*>(shared);
  float* const by_distance = q + p.head_dim;
  float* const scores = by_distance + p.head_dim;
  for (int d = static_cast<int>(threadIdx.x); d < p.head_dim; d += kRelativeThreads) {
    const float value = to_float(p.q[row * p.q_stride + column + d]);
    q[d] = value + p.q_bias[column + d];
    by_distance[d] = value + p.d_bias[column + d];
  }
  __syncthreads();
  float top = -INFINITY, sum = 0.0f;
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += kRelativeThreads) {
    const T* key = p.k + (int64_t{begin} + j) * p.k_stride + column;
    const T* distance = p.distances + (int64_t{p.zero} + begin + j - row) * p.d_stride + column;
    float score = 0.0f;
    for (int d = 0; d < p.head_dim; ++d) {
      score = fmaf(q[d], to_float(key[d]), score);
      score = fmaf(by_distance[d], to_float(distance[d]), score);
    }
    scores[j] = score * p.scale;
    top = fmaxf(top, scores[j]);
  }
  top = block_max(top, scratch);
  for (int j = static_cast<int>(threadIdx.x); j < keys; j += kRelativeThreads) {
    scores[j] = expf(scores[j] - top);
    sum += scores[j];
  }
  const float factor = 1.0f / block_sum(sum, scratch);
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < p.head_dim; d += kRelativeThreads) {
    float value = 0.0f;
    for (int j = 0; j < keys; ++j)
      value = fmaf(scores[j], to_float(p.v[(int64_t{begin} + j) * p.v_stride + column + d]), value);
    p.out[row * p.out_stride + column + d] = from_float<T>(value * factor);
  }
}

}  // namespace

void relative_attention(Context& ctx, const ops::RelativeAttentionArgs& args) {
  // No sequence has more keys than that: there is a row for each distance.
  const int64_t keys = (args.distances.dim(0) + 1) / 2;
  const int64_t bytes = (keys + 2 * args.head_dim) * static_cast<int64_t>(sizeof(float));
  TANDEM_CHECK_LE(bytes + kRelativeThreads * static_cast<int64_t>(sizeof(float)),
                  kUsualSharedBytes);
  const dim3 grid(static_cast<unsigned>(args.q.dim(0)), static_cast<unsigned>(args.num_heads));
  with_type(args.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto data = [](const Tensor& t) { return static_cast<const T*>(t.raw()); };
    const RelativeParams<T> params{data(args.q),
                                   data(args.k),
                                   data(args.v),
                                   data(args.distances),
                                   static_cast<T*>(args.out.raw()),
                                   args.q.row_stride(),
                                   args.k.row_stride(),
                                   args.v.row_stride(),
                                   args.distances.row_stride(),
                                   args.out.row_stride(),
                                   args.indptr.data<int32_t>(),
                                   args.q_bias.data<float>(),
                                   args.d_bias.data<float>(),
                                   static_cast<int>(args.indptr.dim(0)) - 1,
                                   args.head_dim,
                                   args.zero,
                                   args.scale};
    TANDEM_LAUNCH(relative_kernel<T>, grid, kRelativeThreads, static_cast<size_t>(bytes),
                  stream_of(ctx), params);
  });
  after_launch("relative_attention");
}

}  // namespace tandem::cuda
