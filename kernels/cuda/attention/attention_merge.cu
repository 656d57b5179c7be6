// merge_attention: one softmax over two sets of keys.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kMergeThreads = 128;

template <class T>
struct Merged {
  const T* rows;
  int64_t stride;
  const float* log_sums;
  int64_t log_sums_stride;

  Merged(const Tensor& t, const Tensor& sums)
      : rows(static_cast<const T*>(t.raw())),
        stride(t.row_stride()),
        log_sums(sums.data<float>()),
        log_sums_stride(sums.row_stride()) {}
};

// A row in grid.x. Of a set without weight (no keys, or scores of -inf only) nothing is looked at.
template <class T>
__global__ void merge_kernel(Merged<T> a, Merged<T> b, T* out, int64_t out_stride, int features,
                             int head_dim) {
  wait_for_earlier_kernels();
  const int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < features; i += static_cast<int>(blockDim.x)) {
    const int head = i / head_dim;
    const float of_a = a.log_sums[row * a.log_sums_stride + head];
    const float of_b = b.log_sums[row * b.log_sums_stride + head];
    const float most = fmaxf(of_a, of_b), base = most == -INFINITY ? 0.0f : most;
    const float wa = expf(of_a - base), wb = expf(of_b - base);
    const float x = wa == 0.0f ? 0.0f : wa * to_float(a.rows[row * a.stride + i]);
    const float y = wb == 0.0f ? 0.0f : wb * to_float(b.rows[row * b.stride + i]);
    out[row * out_stride + i] = from_float<T>((x + y) / (wa + wb));
  }
}

}  // namespace

void merge_attention(Context& ctx, const ops::MergeAttentionArgs& args) {
  const auto features = static_cast<int>(args.out.dim(1));
  const int head_dim = features / static_cast<int>(args.a_log_sums.dim(1));
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(merge_kernel<T>, static_cast<unsigned>(args.out.dim(0)), kMergeThreads, 0,
                  stream_of(ctx), Merged<T>(args.a, args.a_log_sums),
                  Merged<T>(args.b, args.b_log_sums), static_cast<T*>(args.out.raw()),
                  args.out.row_stride(), features, head_dim);
  });
  after_launch("merge_attention");
}

}  // namespace tandem::cuda
