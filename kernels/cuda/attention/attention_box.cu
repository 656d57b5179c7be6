// box_attention: a block is some queries and a head, a warp a query. Its lanes are elements of the
// head, keys come one after the other.
#include "kernels/box_distance.h"
#include "kernels/cuda/attention/attention_warp.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kBoxWarps = 4, kBoxThreads = kBoxWarps * kWarpSize;

struct Biases {
  const float* values;
  int32_t columns, zero;

  __device__ float of(int64_t head, int32_t distance) const {
    return values[head * columns + min(max(distance + zero, 0), columns - 1)];
  }
};

template <class T>
struct BoxParams {
  const T *q, *k, *v;
  T* out;
  int64_t q_stride, k_stride, v_stride, out_stride, rows;
  const int32_t* indptr;
  const float* boxes;
  Biases bias, across, down;
  int32_t head_dim;
  float scale;
};

template <class T>
__global__ void __launch_bounds__(kBoxThreads) box_kernel(BoxParams<T> p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t row = int64_t{static_cast<int>(blockIdx.x)} * kBoxWarps + warp,
                head = static_cast<int>(blockIdx.y), column = head * p.head_dim;
  if (row >= p.rows) return;
  int32_t sequence = 0;  // steps have few
  while (p.indptr[sequence + 1] <= row) ++sequence;
  float* const mine = reinterpret_cast<float*>(shared) + warp * 2 * p.head_dim;
  WarpHead running{mine, mine + p.head_dim, p.head_dim};
  running.begin(p.q + row * p.q_stride + column, p.scale);
  for (int64_t key = p.indptr[sequence]; key < p.indptr[sequence + 1]; ++key) {
    const float *from = p.boxes + 4 * row, *to = p.boxes + 4 * key;
    const float bias = p.down.of(head, box_distance(from, to, 1)) +
                       (p.across.of(head, box_distance(from, to, 0)) +
                        p.bias.of(head, static_cast<int32_t>(key - row)));
    running.add([&](int32_t d) { return to_float(p.k[key * p.k_stride + column + d]); },
                [&](int32_t d) { return to_float(p.v[key * p.v_stride + column + d]); }, bias);
  }
  running.end(p.out + row * p.out_stride + column);
}

Biases biases_of(const ops::PositionBias& bias) {
  return {bias.values.data<float>(), static_cast<int32_t>(bias.values.dim(1)), bias.zero};
}

}  // namespace

void box_attention(Context& ctx, const ops::BoxAttentionArgs& args) {
  const int64_t rows = args.q.dim(0);
  const dim3 grid(static_cast<unsigned>(ceil_div(rows, kBoxWarps)),
                  static_cast<unsigned>(args.num_heads));
  const size_t shared = sizeof(float) * kBoxWarps * 2 * static_cast<size_t>(args.head_dim);
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto at = [](const Tensor& t) { return static_cast<const T*>(t.raw()); };
    const BoxParams<T> params{at(args.q),
                              at(args.k),
                              at(args.v),
                              static_cast<T*>(args.out.raw()),
                              args.q.row_stride(),
                              args.k.row_stride(),
                              args.v.row_stride(),
                              args.out.row_stride(),
                              rows,
                              args.indptr.data<int32_t>(),
                              args.boxes.data<float>(),
                              biases_of(args.bias),
                              biases_of(args.across),
                              biases_of(args.down),
                              args.head_dim,
                              args.scale};
    TANDEM_LAUNCH(box_kernel<T>, grid, kBoxThreads, shared, stream_of(ctx), params);
  });
  after_launch("box_attention");
}

}  // namespace tandem::cuda
