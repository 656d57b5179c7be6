// Embedding, layer norm, gather, activation: a block for each row.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

template <class Table>
__device__ __forceinline__ float table_value(const void* table, int64_t at) {
  return to_float(static_cast<const Table*>(table)[at]);
}

struct EmbeddingParams {
  const int32_t *ids, *position_ids;
  const void *tokens, *positions;  // positions may be null
  int64_t token_rows, token_stride, position_stride;
  int64_t size, out_stride;
  float scale;
  int32_t position_offset, first_id;
  const float *norm_weight, *norm_bias;  // of kNorm
  float eps;
};

// out = the norm of `row` ([size] in shared memory, of which a thread has written and reads the
// elements threadIdx.x, + blockDim.x, ..., with the sum `sum`).
template <class T>
__device__ __forceinline__ void norm_row(const float* row, float sum, const float* weight,
                                         const float* bias, float eps, int size, T* out) {
  __shared__ float scratch[33];
  const float mean = block_sum(sum, scratch) / static_cast<float>(size);
  __syncthreads();
  float squares = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    const float d = row[i] - mean;
    squares += d * d;
  }
  const float variance = block_sum(squares, scratch) / static_cast<float>(size);
  const float scale = 1.0f / sqrtf(variance + eps);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x))
    out[i] = from_float<T>((row[i] - mean) * scale * weight[i] + bias[i]);
}

template <class T, class Tokens, class Positions, bool kNorm>
__global__ void embedding_kernel(EmbeddingParams p, T* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  float* sums = reinterpret_cast<float*>(shared);
  float total = 0.0f;
  const int64_t row = blockIdx.x;
  const int64_t id = int64_t{p.ids[row]} - p.first_id;
  const bool known = id >= 0 && id < p.token_rows;
  const int64_t position =
      p.positions == nullptr ? 0 : int64_t{p.position_ids[row]} + p.position_offset;
  for (int64_t i = threadIdx.x; i < p.size; i += blockDim.x) {
    float x = known ? p.scale * table_value<Tokens>(p.tokens, id * p.token_stride + i) : 0.0f;
    if (p.positions != nullptr)
      x = __fadd_rn(x, table_value<Positions>(p.positions, position * p.position_stride + i));
    if (kNorm) {
      sums[i] = x;
      total += x;
    } else {
      out[row * p.out_stride + i] = from_float<T>(x);
    }
  }
  if (kNorm)
    norm_row(sums, total, p.norm_weight, p.norm_bias, p.eps, static_cast<int>(p.size),
             out + row * p.out_stride);
}

// The row is kept in shared memory, [size] f32, so that memory is read once.
template <class T>
__global__ void layer_norm_kernel(const T* x, int64_t x_stride, const T* residual,
                                  int64_t residual_stride, const float* weight, const float* bias,
                                  float eps, T* out, int64_t out_stride, int size) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  float* row = reinterpret_cast<float*>(shared);
  const int64_t at = blockIdx.x;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < size; i += static_cast<int>(blockDim.x)) {
    float h = to_float(x[at * x_stride + i]);
    if (residual != nullptr) h += to_float(residual[at * residual_stride + i]);
    row[i] = h;
    sum += h;
  }
  norm_row(row, sum, weight, bias, eps, size, out + at * out_stride);
}

template <class T>
__global__ void gather_kernel(const T* x, int64_t x_stride, const int32_t* rows, T* out,
                              int64_t out_stride, int64_t size) {
  wait_for_earlier_kernels();
  const int64_t from = rows[blockIdx.x];
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    out[blockIdx.x * out_stride + i] = x[from * x_stride + i];
}

template <class T>
__global__ void activate_kernel(Activation activation, T* x, int64_t stride, int64_t size) {
  wait_for_earlier_kernels();
  T* row = x + blockIdx.x * stride;
  const int64_t i = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (i < size) row[i] = from_float<T>(activate(activation, to_float(row[i])));
}

unsigned blocks(int64_t n) { return static_cast<unsigned>(n); }

}  // namespace

void embedding(Context& ctx, const ops::EmbeddingArgs& args) {
  EmbeddingParams p{};
  p.ids = args.ids.data<int32_t>();
  p.tokens = args.tokens.raw();
  p.token_rows = args.tokens.dim(0);
  p.token_stride = args.tokens.row_stride();
  if (!args.positions.empty()) {
    p.position_ids = args.position_ids.data<int32_t>();
    p.positions = args.positions.raw();
    p.position_stride = args.positions.row_stride();
  }
  p.size = args.out.dim(1);
  p.out_stride = args.out.row_stride();
  p.scale = args.scale;
  p.position_offset = args.position_offset;
  p.first_id = args.first_id;
  const bool norm = !args.norm_weight.empty();
  size_t shared = 0;
  if (norm) {
    TANDEM_CHECK_LE(p.size, int64_t{kMaxNormFeatures});
    p.norm_weight = args.norm_weight.data<float>();
    p.norm_bias = args.norm_bias.data<float>();
    p.eps = args.norm_eps;
    shared = static_cast<size_t>(p.size) * sizeof(float);
  }
  const unsigned rows = blocks(args.out.dim(0));
  const DType positions = args.positions.empty() ? DType::kF32 : args.positions.dtype();
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = static_cast<T*>(args.out.raw());
    const auto run = [&](auto tokens_tag, auto positions_tag) {
      using Tokens = typename decltype(tokens_tag)::type;
      using Positions = typename decltype(positions_tag)::type;
      if (norm) {
        TANDEM_LAUNCH((embedding_kernel<T, Tokens, Positions, true>), rows, kThreads, shared,
                      stream_of(ctx), p, out);
      } else {
        TANDEM_LAUNCH((embedding_kernel<T, Tokens, Positions, false>), rows, kThreads, 0,
                      stream_of(ctx), p, out);
      }
    };
    const TypeTag<float> f32;
    const TypeTag<__nv_bfloat16> bf16;
    if (args.tokens.dtype() == DType::kF32)
      positions == DType::kF32 ? run(f32, f32) : run(f32, bf16);
    else
      positions == DType::kF32 ? run(bf16, f32) : run(bf16, bf16);
  });
  after_launch("embedding");
}

void layer_norm(Context& ctx, const ops::LayerNormArgs& args) {
  const int64_t size = args.x.dim(1);
  TANDEM_CHECK_LE(size, int64_t{kMaxNormFeatures});
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* residual = static_cast<const T*>(args.residual.raw());
    TANDEM_LAUNCH(layer_norm_kernel<T>, blocks(args.x.dim(0)), kThreads,
                  static_cast<size_t>(size) * sizeof(float), stream_of(ctx),
                  static_cast<const T*>(args.x.raw()), args.x.row_stride(), residual,
                  args.residual.empty() ? 0 : args.residual.row_stride(), args.weight.data<float>(),
                  args.bias.data<float>(), args.eps, static_cast<T*>(args.out.raw()),
                  args.out.row_stride(), static_cast<int>(size));
  });
  after_launch("layer_norm");
}

void gather_rows(Context& ctx, const ops::GatherRowsArgs& args) {
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(gather_kernel<T>, blocks(args.out.dim(0)), kThreads, 0, stream_of(ctx),
                  static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                  args.rows.data<int32_t>(), static_cast<T*>(args.out.raw()), args.out.row_stride(),
                  args.out.dim(1));
  });
  after_launch("gather_rows");
}

void activate_rows(Context& ctx, Activation activation, const Tensor& x) {
  if (activation == Activation::kNone || x.dim(0) == 0 || x.dim(1) == 0) return;
  with_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const dim3 grid(blocks(x.dim(0)), static_cast<unsigned>(ceil_div(x.dim(1), 256)));
    TANDEM_LAUNCH(activate_kernel<T>, grid, 256, 0, stream_of(ctx), activation,
                  static_cast<T*>(x.raw()), x.row_stride(), x.dim(1));
  });
  after_launch("activation");
}

}  // namespace tandem::cuda
