// attention_weights: the softmax of cross-attention's scores, for one head of one sequence.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/page_types.cuh"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

constexpr int kWeightThreads = 256;

// One head's keys. Stored: of the pages.
template <class Stored>
struct HeadKeys {
  const typename Stored::Element* first;  // of block 0
  const void* scales;                     // of 8 bits; those of all heads
  int64_t first_row;                      // of the scales: the one of `first`
  const int32_t* pages;
  int64_t block, token;  // strides
  int32_t block_size, head_dim;

  // scale is not in it.
  template <class Query>
  __device__ float score(const Query* q, int64_t key) const {
    const int64_t at = pages[key / block_size] * block + key % block_size * token;
    float sum = 0.0f;
    for (int32_t d = 0; d < head_dim; ++d)
      sum = fmaf(to_float(q[d]), Stored::widen(first[at + d]), sum);
    return sum * row_factor<Stored>(scales, first_row + at / head_dim);
  }
};

// A query in grid.x. Scores are computed twice rather than stored: a thread's first, for the
// largest and the sum.
template <class Query, class Stored>
__global__ void weights_kernel(const Query* q, int64_t q_stride, HeadKeys<Stored> keys,
                               int64_t count, float scale, float* out, int64_t out_stride,
                               int64_t columns) {
  wait_for_earlier_kernels();
  __shared__ float scratch[33];
  const Query* const row = q + blockIdx.x * q_stride;
  float most = -INFINITY, sum = 0.0f;
  for (int64_t j = threadIdx.x; j < count; j += blockDim.x) {
    const float score = keys.score(row, j) * scale;
    if (score > most) {
      sum *= expf(most - score);
      most = score;
    }
    sum += expf(score - most);
  }
  const float largest = block_largest(most, scratch);
  const float whole = block_sum(most == -INFINITY ? 0.0f : sum * expf(most - largest), scratch);
  for (int64_t j = threadIdx.x; j < columns; j += blockDim.x)
    out[blockIdx.x * out_stride + j] = expf(keys.score(row, j) * scale - largest) / whole;
}

__global__ void zero_kernel(float* out, int64_t out_stride, int64_t columns) {
  wait_for_earlier_kernels();
  for (int64_t j = threadIdx.x; j < columns; j += blockDim.x) out[blockIdx.x * out_stride + j] = 0;
}

template <class Query, class Stored>
void launch_weights(Context& ctx, const ops::AttentionWeightsArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  const int64_t head = args.kv_head * s.head;
  const HeadKeys<Stored> keys{
      static_cast<const typename Stored::Element*>(args.pages.data.raw()) + head,
      kIn8Bits<Stored> ? args.pages.scales.raw() : nullptr,
      head / s.head_dim,
      args.page_indices.data<int32_t>(),
      s.block,
      s.token,
      static_cast<int32_t>(s.block_size),
      static_cast<int32_t>(s.head_dim)};
  TANDEM_LAUNCH((weights_kernel<Query, Stored>), static_cast<unsigned>(args.q.dim(0)),
                kWeightThreads, 0, stream_of(ctx), static_cast<const Query*>(args.q.raw()),
                args.q.row_stride(), keys, args.keys, args.scale, args.out.data<float>(),
                args.out.row_stride(), args.out.dim(1));
}

}  // namespace

void attention_weights(Context& ctx, const ops::AttentionWeightsArgs& args) {
  if (args.kv_head < 0) {
    TANDEM_LAUNCH(zero_kernel, static_cast<unsigned>(args.out.dim(0)), kWeightThreads, 0,
                  stream_of(ctx), args.out.data<float>(), args.out.row_stride(), args.out.dim(1));
  } else {
    with_type(args.q.dtype(), [&](auto tag) {
      using Query = typename decltype(tag)::type;
      with_page_type<Query>(args.pages.data.dtype(), [&](auto stored) {
        launch_weights<Query, decltype(stored)>(ctx, args);
      });
    });
  }
  after_launch("attention_weights");
}

}  // namespace tandem::cuda
