// Embedding, norms, gates, activation, soft caps: a block for each row, or for a piece of one.
#include <type_traits>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kRowThreads = 128;

struct EmbeddingParams {
  const int32_t *ids, *position_ids;
  const float* whole_numbers;  // in place of ids; or null
  int64_t whole_numbers_stride;
  const void *tokens, *positions;  // positions may be null
  int64_t token_rows, token_stride, position_stride;
  int64_t size, out_stride;
  float scale;
  int32_t position_offset, first_id;
  const float *norm_weight, *norm_bias;  // of kNorm
  float eps;
  bool aligned;  // all of them, as in layer_norm_kernel
};

// -1: none that a table has.
__device__ __forceinline__ int64_t id_at(const EmbeddingParams& p, int64_t row) {
  if (p.whole_numbers == nullptr) return p.ids[row];
  const float id = p.whole_numbers[row * p.whole_numbers_stride];
  return id >= 0.0f && id < 0x1p31f ? static_cast<int64_t>(id) : -1;
}

// Elements of a row that a thread takes at a time: 16 bytes of 16-bit types.
constexpr int kRowPiece = 8;

// The first `count` of kRowPiece elements. `aligned`: at a multiple of 16 bytes, all of them.
template <class T>
__device__ __forceinline__ void load_piece(const T* from, int count, bool aligned,
                                           float (&out)[kRowPiece]) {
#pragma unroll
  for (int i = 0; i < kRowPiece; i += kVector<T>) {
    if (aligned) {
      const Vector<T> v = *reinterpret_cast<const Vector<T>*>(from + i);
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) out[i + j] = to_float(v.values[j]);
    } else {
#pragma unroll
      for (int j = i; j < i + kVector<T>; ++j) out[j] = j < count ? to_float(from[j]) : 0.0f;
    }
  }
}
template <class T>
__device__ __forceinline__ void store_piece(const float (&values)[kRowPiece], int count,
                                            bool aligned, T* to) {
#pragma unroll
  for (int i = 0; i < kRowPiece; i += kVector<T>) {
    Vector<T> v;
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j) v.values[j] = from_float<T>(values[i + j]);
    if (aligned) {
      *reinterpret_cast<Vector<T>*>(to + i) = v;
    } else {
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j)
        if (i + j < count) to[i + j] = v.values[j];
    }
  }
}

// out = the norm of `row` ([size] in shared memory, of which a thread has written, with the sum
// `sum`, the pieces that it reads). `aligned`: of weight, bias and out, and size is a multiple of
// kRowPiece; the same bits either way. kRms: `sum` and `bias` are not used.
template <bool kRms, class T>
__device__ __forceinline__ void norm_row(const float* row, float sum, const float* weight,
                                         const float* bias, float eps, int size, bool aligned,
                                         T* out) {
  __shared__ float scratch[33];
  const int first = static_cast<int>(threadIdx.x) * kRowPiece, step = kRowThreads * kRowPiece;
  // A row of up to 1024 elements waits for these while the sums are made.
  float weights[kRowPiece], biases[kRowPiece] = {};
  load_piece(weight + first, size - first, aligned && first < size, weights);
  if (!kRms) load_piece(bias + first, size - first, aligned && first < size, biases);
  const float mean = kRms ? 0.0f : block_sum(sum, scratch) / static_cast<float>(size);
  __syncthreads();
  float squares = 0;
  float values[kRowPiece];
  for (int at = first; at < size; at += step) {
    load_piece(row + at, size - at, at + kRowPiece <= size, values);
#pragma unroll
    for (int i = 0; i < kRowPiece; ++i) {
      const float d = at + i < size ? values[i] - mean : 0.0f;
      squares = fmaf(d, d, squares);
    }
  }
  const float variance = block_sum(squares, scratch) / static_cast<float>(size);
  const float scale = 1.0f / sqrtf(variance + eps);
  for (int at = first; at < size; at += step) {
    if (at != first) {
      load_piece(weight + at, size - at, aligned, weights);
      if (!kRms) load_piece(bias + at, size - at, aligned, biases);
    }
    load_piece(row + at, size - at, at + kRowPiece <= size, values);
#pragma unroll
    for (int i = 0; i < kRowPiece; ++i)
      values[i] = fmaf((values[i] - mean) * scale, weights[i], biases[i]);
    store_piece(values, size - at, aligned, out + at);
  }
}

template <class T, class Tokens, class Positions, bool kNorm>
__global__ void __launch_bounds__(kRowThreads) embedding_kernel(EmbeddingParams p, T* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  float* sums = reinterpret_cast<float*>(shared);
  float total = 0.0f;
  const int64_t row = blockIdx.x;
  const int64_t id = id_at(p, row) - p.first_id;
  const bool known = id >= 0 && id < p.token_rows;
  const auto* token = static_cast<const Tokens*>(p.tokens) + (known ? id * p.token_stride : 0);
  const auto* position = static_cast<const Positions*>(p.positions);
  if (position != nullptr)
    position += (int64_t{p.position_ids[row]} + p.position_offset) * p.position_stride;
  out += row * p.out_stride;
  const int size = static_cast<int>(p.size);
  for (int at = static_cast<int>(threadIdx.x) * kRowPiece; at < size;
       at += kRowThreads * kRowPiece) {
    float x[kRowPiece] = {}, more[kRowPiece] = {};
    if (known) load_piece(token + at, size - at, p.aligned, x);
    if (position != nullptr) load_piece(position + at, size - at, p.aligned, more);
#pragma unroll
    for (int i = 0; i < kRowPiece; ++i) {
      x[i] = __fmul_rn(p.scale, x[i]);
      if (position != nullptr) x[i] = __fadd_rn(x[i], more[i]);
      total += x[i];  // zeros beyond the row
    }
    if (kNorm) {
      store_piece(x, size - at, at + kRowPiece <= size, sums + at);
    } else {
      store_piece(x, size - at, p.aligned, out + at);
    }
  }
  if (kNorm) norm_row<false>(sums, total, p.norm_weight, p.norm_bias, p.eps, size, p.aligned, out);
}

// The row is kept in shared memory, [size] f32, so that memory is read once; of several groups in a
// row, one in blockIdx.y. `aligned`: all rows, weight and bias begin at multiples of 16 bytes, and
// size is a multiple of kPiece.
template <class T, bool kRms>
__global__ void __launch_bounds__(kRowThreads)
    layer_norm_kernel(const T* x, int64_t x_stride, const T* residual, int64_t residual_stride,
                      const float* weight, const float* bias, float eps, T* out, int64_t out_stride,
                      T* sums, int64_t sums_stride, int size, bool aligned) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  float* row = reinterpret_cast<float*>(shared);
  const int64_t group = static_cast<int64_t>(blockIdx.y) * size;
  x += blockIdx.x * x_stride + group;
  out += blockIdx.x * out_stride + group;
  if (residual != nullptr) residual += blockIdx.x * residual_stride;
  if (sums != nullptr) sums += blockIdx.x * sums_stride;
  float sum = 0;
  for (int at = static_cast<int>(threadIdx.x) * kRowPiece; at < size;
       at += kRowThreads * kRowPiece) {
    float h[kRowPiece], more[kRowPiece] = {};
    load_piece(x + at, size - at, aligned, h);
    if (residual != nullptr) load_piece(residual + at, size - at, aligned, more);
#pragma unroll
    for (int i = 0; i < kRowPiece; ++i) {
      if (residual != nullptr) h[i] += more[i];
      sum += h[i];  // zeros beyond the row
    }
    store_piece(h, size - at, at + kRowPiece <= size, row + at);
    if (sums != nullptr) store_piece(h, size - at, aligned, sums + at);
  }
  norm_row<kRms>(row, sum, weight, bias, eps, size, aligned, out);
}

// `aligned`: all rows begin at multiples of 16 bytes, and size is a multiple of kPiece.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    gate_kernel(Activation activation, const T* gate, int64_t gate_stride, const T* up,
                int64_t up_stride, T* out, int64_t out_stride, int size, bool aligned) {
  wait_for_earlier_kernels();
  gate += blockIdx.x * gate_stride;
  up += blockIdx.x * up_stride;
  out += blockIdx.x * out_stride;
  for (int at = static_cast<int>(threadIdx.x) * kRowPiece; at < size;
       at += kRowThreads * kRowPiece) {
    float x[kRowPiece], factors[kRowPiece];
    load_piece(gate + at, size - at, aligned, x);
    load_piece(up + at, size - at, aligned, factors);
#pragma unroll
    for (int i = 0; i < kRowPiece; ++i) x[i] = __fmul_rn(activate(activation, x[i]), factors[i]);
    store_piece(x, size - at, aligned, out + at);
  }
}

constexpr int kMapThreads = 256;

struct Activate {
  Activation activation;
  __device__ float operator()(float x) const { return activate(activation, x); }
};
struct Cap {
  float cap;
  __device__ float operator()(float x) const { return soft_capped(x, cap); }
};

// x = f(x)
template <class T, class F>
__global__ void __launch_bounds__(kMapThreads)
    map_kernel(F f, T* x, int64_t stride, int64_t size, bool aligned) {
  wait_for_earlier_kernels();
  const int64_t at = (static_cast<int64_t>(blockIdx.y) * kMapThreads + threadIdx.x) * kRowPiece;
  if (at >= size) return;
  T* from = x + blockIdx.x * stride + at;
  const int count = static_cast<int>(min(int64_t{kRowPiece}, size - at));
  float values[kRowPiece];
  load_piece(from, count, aligned, values);
#pragma unroll
  for (int i = 0; i < kRowPiece; ++i) values[i] = f(values[i]);
  store_piece(values, count, aligned, from);
}

unsigned blocks(int64_t n) { return static_cast<unsigned>(n); }

// Whether all rows begin at multiples of 16 bytes.
bool aligned_16(const Tensor& t) {
  const auto stride = t.rank() == 2 ? static_cast<uintptr_t>(t.row_stride()) : 0;
  return (reinterpret_cast<uintptr_t>(t.raw()) | stride * size_of(t.dtype())) % 16 == 0;
}

template <class F>
void map_rows(Context& ctx, F f, const Tensor& x) {
  with_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const dim3 grid(blocks(x.dim(0)),
                    static_cast<unsigned>(ceil_div(x.dim(1), kMapThreads * kRowPiece)));
    TANDEM_LAUNCH((map_kernel<T, F>), grid, kMapThreads, 0, stream_of(ctx), f,
                  static_cast<T*>(x.raw()), x.row_stride(), x.dim(1),
                  x.dim(1) % kRowPiece == 0 && aligned_16(x));
  });
}

}  // namespace

void embedding(Context& ctx, const ops::EmbeddingArgs& args) {
  EmbeddingParams p{};
  if (args.ids.dtype() == DType::kF32) {
    p.whole_numbers = args.ids.data<float>();
    p.whole_numbers_stride = args.ids.row_stride();
  } else {
    p.ids = args.ids.data<int32_t>();
  }
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
  p.aligned = p.size % kRowPiece == 0;
  for (const Tensor& t : {args.tokens, args.positions, args.norm_weight, args.norm_bias, args.out})
    p.aligned = p.aligned && (t.empty() || aligned_16(t));
  const unsigned rows = blocks(args.out.dim(0));
  const DType positions = args.positions.empty() ? DType::kF32 : args.positions.dtype();
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = static_cast<T*>(args.out.raw());
    const auto run = [&](auto tokens_tag, auto positions_tag) {
      using Tokens = typename decltype(tokens_tag)::type;
      using Positions = typename decltype(positions_tag)::type;
      if (norm) {
        TANDEM_LAUNCH((embedding_kernel<T, Tokens, Positions, true>), rows, kRowThreads, shared,
                      stream_of(ctx), p, out);
      } else {
        TANDEM_LAUNCH((embedding_kernel<T, Tokens, Positions, false>), rows, kRowThreads, 0,
                      stream_of(ctx), p, out);
      }
    };
    const TypeTag<float> f32;
    const TypeTag<__nv_bfloat16> bf16;
    if (args.tokens.dtype() == DType::kF16) {
      if constexpr (std::is_same_v<T, __half>) {
        TANDEM_CHECK(positions == DType::kF32);
        return run(TypeTag<__half>(), f32);
      }
    }
    if (args.tokens.dtype() == DType::kF32)
      positions == DType::kF32 ? run(f32, f32) : run(f32, bf16);
    else
      positions == DType::kF32 ? run(bf16, f32) : run(bf16, bf16);
  });
  after_launch("embedding");
}

void layer_norm(Context& ctx, const ops::LayerNormArgs& args) {
  const int64_t size = args.x.dim(1) / args.groups;
  TANDEM_CHECK_LE(size, int64_t{kMaxNormFeatures});
  bool aligned = size % kRowPiece == 0;
  for (const Tensor& t : {args.x, args.residual, args.weight, args.bias, args.out, args.sum})
    aligned = aligned && (t.empty() || aligned_16(t));
  with_type(args.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* residual = static_cast<const T*>(args.residual.raw());
    T* sums = args.sum.empty() ? nullptr : static_cast<T*>(args.sum.raw());
    const dim3 grid(blocks(args.x.dim(0)), blocks(args.groups));
    const auto run = [&](auto kernel, const float* bias) {
      TANDEM_LAUNCH(kernel, grid, kRowThreads, static_cast<size_t>(size) * sizeof(float),
                    stream_of(ctx), static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                    residual, args.residual.empty() ? 0 : args.residual.row_stride(),
                    args.weight.data<float>(), bias, args.eps, static_cast<T*>(args.out.raw()),
                    args.out.row_stride(), sums, args.sum.empty() ? 0 : args.sum.row_stride(),
                    static_cast<int>(size), aligned);
    };
    if (args.rms)
      run(layer_norm_kernel<T, true>, nullptr);
    else
      run(layer_norm_kernel<T, false>, args.bias.data<float>());
  });
  after_launch("layer_norm");
}

void gated_activation(Context& ctx, const ops::GatedActivationArgs& args) {
  const int64_t size = args.gate.dim(1);
  TANDEM_CHECK_LT(size, int64_t{1} << 30);
  const bool aligned =
      size % kRowPiece == 0 && aligned_16(args.gate) && aligned_16(args.up) && aligned_16(args.out);
  with_type(args.gate.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(gate_kernel<T>, blocks(args.gate.dim(0)), kRowThreads, 0, stream_of(ctx),
                  args.activation, static_cast<const T*>(args.gate.raw()), args.gate.row_stride(),
                  static_cast<const T*>(args.up.raw()), args.up.row_stride(),
                  static_cast<T*>(args.out.raw()), args.out.row_stride(), static_cast<int>(size),
                  aligned);
  });
  after_launch("gated_activation");
}

void activate_rows(Context& ctx, Activation activation, const Tensor& x) {
  if (activation == Activation::kNone || x.dim(0) == 0 || x.dim(1) == 0) return;
  map_rows(ctx, Activate{activation}, x);
  after_launch("activation");
}

void soft_cap(Context& ctx, const ops::SoftCapArgs& args) {
  map_rows(ctx, Cap{args.cap}, args.x);
  after_launch("soft_cap");
}

}  // namespace tandem::cuda
