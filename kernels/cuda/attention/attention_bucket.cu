// bucket_attention: a block is a work of the plan and a head, a warp takes one query after another.
// Its lanes are elements of the head, keys come one after the other.
#include "kernels/attention_plan.h"
#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/page_types.cuh"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

constexpr int kBucketWarps = 4, kBucketThreads = kBucketWarps * kWarpSize;

// Stored: of the pages.
template <class T, class Stored>
struct BucketParams {
  const T *q, *own_k, *own_v, *biases;
  T* out;
  int64_t q_stride, own_k_stride, own_v_stride, biases_stride, out_stride;
  const typename Stored::Element* pages;
  const void* scales;
  const int32_t *page_indices, *bucket_of;
  int64_t block, kv, head, token;  // strides
  int32_t block_size, head_dim, buckets, distances, ahead, behind;
  float scale;

  __device__ float stored(int64_t at, int32_t d) const {
    return Stored::widen(pages[at + d]) * row_factor<Stored>(scales, at / head_dim);
  }
  __device__ float bias(const T* biases_of_row, int32_t distance) const {
    return to_float(biases_of_row[bucket_of[min(max(distance, 0), distances - 1)]]);
  }
};

template <class T, class Stored>
__global__ void __launch_bounds__(kBucketThreads)
    bucket_kernel(BucketParams<T, Stored> p, const AttentionWork* works) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  const AttentionWork& work = works[blockIdx.x];
  if (work.chunk > 0) return;  // the first chunk's block reads all keys
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t head = static_cast<int>(blockIdx.y), column = head * p.head_dim;
  float* const mine = reinterpret_cast<float*>(shared) + warp * 2 * p.head_dim;
  for (int32_t i = warp; i < work.queries; i += kBucketWarps) {
    const int64_t row = work.query_row + i;
    WarpHead running{mine, mine + p.head_dim, p.head_dim};
    running.begin(p.q + row * p.q_stride + column, p.scale);
    const T* const biases = p.biases + row * p.biases_stride + head * p.buckets;
    const int32_t position = work.position + i, last = max(position - p.behind, 0);
    for (int32_t j = 0; j <= last; ++j) {
      const int64_t at = p.page_indices[work.kv_base + j / p.block_size] * p.block +
                         j % p.block_size * p.token + head * p.head;
      running.add([&](int32_t d) { return p.stored(at, d); },
                  [&](int32_t d) { return p.stored(at + p.kv, d); },
                  p.bias(biases, position + p.ahead - j));
    }
    if (p.own_k != nullptr)
      running.add([&](int32_t d) { return to_float(p.own_k[row * p.own_k_stride + column + d]); },
                  [&](int32_t d) { return to_float(p.own_v[row * p.own_v_stride + column + d]); },
                  p.bias(biases, 0));
    running.end(p.out + row * p.out_stride + column);
  }
}

template <class T, class Stored>
BucketParams<T, Stored> params_of(const ops::BucketAttentionArgs& args) {
  const auto at = [](const Tensor& t) {
    return t.empty() ? nullptr : static_cast<const T*>(t.raw());
  };
  const auto stride = [](const Tensor& t) { return t.empty() ? 0 : t.row_stride(); };
  const KvStrides s = kv_strides(args.pages);
  BucketParams<T, Stored> p{};
  p.q = at(args.q);
  p.own_k = at(args.own_k);
  p.own_v = at(args.own_v);
  p.biases = at(args.biases);
  p.out = static_cast<T*>(args.out.raw());
  p.q_stride = args.q.row_stride();
  p.own_k_stride = stride(args.own_k);
  p.own_v_stride = stride(args.own_v);
  p.biases_stride = args.biases.row_stride();
  p.out_stride = args.out.row_stride();
  p.pages = static_cast<const typename Stored::Element*>(args.pages.data.raw());
  if (kIn8Bits<Stored>) p.scales = args.pages.scales.raw();
  p.page_indices = args.kv_page_indices.data<int32_t>();
  p.bucket_of = args.bucket_of.data<int32_t>();
  p.block = s.block;
  p.kv = s.kv;
  p.head = s.head;
  p.token = s.token;
  p.block_size = static_cast<int32_t>(s.block_size);
  p.head_dim = args.head_dim;
  p.buckets = args.buckets;
  p.distances = static_cast<int32_t>(args.bucket_of.dim(0));
  p.ahead = args.ahead;
  p.behind = args.behind;
  p.scale = args.scale;
  return p;
}

template <class T, class Stored>
void launch(Context& ctx, const ops::BucketAttentionArgs& args) {
  const BucketParams<T, Stored> params = params_of<T, Stored>(args);
  const size_t shared = sizeof(float) * kBucketWarps * 2 * static_cast<size_t>(args.head_dim);
  for (const Tensor* works : {&args.plan->rows, &args.plan->tiles}) {
    if (works->empty() || works->dim(0) == 0) continue;
    const dim3 grid(static_cast<unsigned>(works->dim(0)), static_cast<unsigned>(args.num_heads));
    TANDEM_LAUNCH((bucket_kernel<T, Stored>), grid, kBucketThreads, shared, stream_of(ctx), params,
                  reinterpret_cast<const AttentionWork*>(works->data<int32_t>()));
  }
}

}  // namespace

void bucket_attention(Context& ctx, const ops::BucketAttentionArgs& args) {
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_page_type<T>(args.pages.data.dtype(),
                      [&](auto stored) { launch<T, decltype(stored)>(ctx, args); });
  });
  after_launch("bucket_attention");
}

}  // namespace tandem::cuda
