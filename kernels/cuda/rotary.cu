// Rotary positions: the angles of a step, and what turns by them in place.
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/rotary.cuh"

namespace tandem::cuda {
namespace {

constexpr int kRotaryThreads = 128;

// A token in grid.x.
__global__ void angles_kernel(const int32_t* positions, const float* frequencies, int half,
                              float* out, int64_t stride) {
  wait_for_earlier_kernels();
  const auto position = static_cast<float>(positions[blockIdx.x]);
  float* row = out + blockIdx.x * stride;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x)) {
    const float angle = __fmul_rn(position, frequencies[i]);
    row[i] = cosf(angle);
    row[half + i] = sinf(angle);
  }
}

// A token in grid.x, a thread for each pair.
template <class T>
__global__ void rotary_kernel(Turn turn, T* x, int64_t stride, int num_heads, int head_dim) {
  wait_for_earlier_kernels();
  const int64_t token = blockIdx.x;
  const int pairs = turn.size / 2;
  for (int at = static_cast<int>(threadIdx.x); at < num_heads * pairs;
       at += static_cast<int>(blockDim.x)) {
    const int i = at % pairs;
    T* head = x + token * stride + int64_t{at / pairs} * head_dim;
    float a = to_float(head[turn.first(i)]), b = to_float(head[turn.second(i)]);
    turn.pair(token, i, a, b);
    head[turn.first(i)] = from_float<T>(a);
    head[turn.second(i)] = from_float<T>(b);
  }
}

}  // namespace

void rotary_angles(Context& ctx, const ops::RotaryAnglesArgs& args) {
  TANDEM_LAUNCH(angles_kernel, static_cast<unsigned>(args.out.dim(0)), kRotaryThreads, 0,
                stream_of(ctx), args.positions.data<int32_t>(), args.frequencies.data<float>(),
                static_cast<int>(args.frequencies.dim(0)), args.out.data<float>(),
                args.out.row_stride());
  after_launch("rotary_angles");
}

void rotary(Context& ctx, const ops::RotaryArgs& args) {
  if (args.rotary.angles.empty()) return;
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(rotary_kernel<T>, static_cast<unsigned>(args.x.dim(0)), kRotaryThreads, 0,
                  stream_of(ctx), Turn(args.rotary), static_cast<T*>(args.x.raw()),
                  args.x.row_stride(), args.num_heads, args.head_dim);
  });
  after_launch("rotary");
}

}  // namespace tandem::cuda
