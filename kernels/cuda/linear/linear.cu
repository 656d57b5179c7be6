// linear(): which kernels, and their scratch.
#include <algorithm>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/linear/cluster_tiles.h"
#include "kernels/cuda/linear/direct_tiles.h"
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/weight_path.h"
#include "kernels/cuda/linear/weight_products.h"
#include "kernels/cuda/linear/wide_tiles.h"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kFinishThreads = 128;

constexpr int kColumns = 8;  // of a thread

template <class T>
__global__ void finish_kernel(const float* sums, int parts, int64_t rows, int64_t n, Epilogue e) {
  wait_for_earlier_kernels();
  const int64_t row = blockIdx.x;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int64_t at = (int64_t{blockIdx.y} * kColumns + i) * kFinishThreads + threadIdx.x;
    if (at >= n) return;
    float sum = sums[row * n + at];
    for (int part = 1; part < parts; ++part) sum += sums[(part * rows + row) * n + at];
    finish<T>(e, row, at, sum);
  }
}

WeightProduct product_of(const ops::LinearArgs& args) {
  const PackedWeight& w = *args.weight;
  const bool quantised = w.quantization() != Quantization::kNone;
  WeightProduct p{};
  p.x = args.x.raw();
  p.x_stride = args.x.row_stride();
  p.rows = args.x.dim(0);
  p.k = w.in_features();
  p.n = w.out_features();
  p.type = args.x.dtype();
  p.weight = w.data().raw();
  p.pitch = w.data().dim(1) * static_cast<int64_t>(size_of(w.data().dtype()));
  p.quantization = w.quantization();
  const bool groups = w.quantization() == Quantization::kInt4;
  if (groups) p.group_scales = w.scales().data<float>();
  if (quantised && !groups) p.epilogue.scales = w.scales().data<float>();
  p.epilogue.bias = args.bias.empty() ? nullptr : args.bias.raw();
  p.epilogue.activation = args.activation;
  p.epilogue.out = args.out.raw();
  p.epilogue.out_stride = args.out.row_stride();
  p.epilogue.out_type = args.out.dtype();
  return p;
}

// The product's rows [first, first + count).
WeightProduct rows_of(WeightProduct p, int64_t first, int64_t count) {
  const auto bytes = [&](int64_t stride, DType type) {
    return first * stride * static_cast<int64_t>(size_of(type));
  };
  p.x = static_cast<const char*>(p.x) + bytes(p.x_stride, p.type);
  p.epilogue.out =
      static_cast<char*>(p.epilogue.out) + bytes(p.epilogue.out_stride, p.epilogue.out_type);
  p.rows = count;
  return p;
}

// (Some rows at a time: more come only where rows must not depend on others, and need not all have
// their parts' sums in memory.)
void run_tiles(Context& ctx, const WeightProduct& p) {
  const int parts = tile_parts(p.n, p.pitch);
  Tensor sums;
  if (parts > 1) sums = ctx.make({parts, std::min(p.rows, kMostTileRows), p.n}, DType::kF32);
  for (int64_t first = 0; first < p.rows; first += kMostTileRows)
    weight_tiles(rows_of(p, first, std::min(kMostTileRows, p.rows - first)),
                 parts > 1 ? sums.data<float>() : nullptr, stream_of(ctx));
}

// What cuBLASLt does not multiply, weight_rows() does: slower, all sizes.
//
// A weight written out, then cuBLASLt. Of int8 and fp8 the integers and floats themselves are, and
// scales follow the sums.
void run_widened(Context& ctx, const ops::LinearArgs& args, const WeightProduct& p) {
  const Tensor weight = ctx.make({p.n, p.k}, p.type);
  widen_weight(p, weight.raw(), stream_of(ctx));
  if (p.epilogue.scales == nullptr) {
    const bool relu = args.activation == Activation::kRelu;
    if (!multiply(ctx, args.x, weight, p.k, args.bias, relu, args.out))
      return weight_rows(p, stream_of(ctx));
    if (!relu) activate_rows(ctx, args.activation, args.out);
    return;
  }
  const Tensor sums = ctx.make({p.rows, p.n}, DType::kF32);
  if (!multiply(ctx, args.x, weight, p.k, {}, false, sums)) return weight_rows(p, stream_of(ctx));
  finish_product(sums.data<float>(), 1, p.rows, p.n, p.epilogue, stream_of(ctx));
}

void run_fp8(Context& ctx, const ops::LinearArgs& args, const WeightProduct& p) {
  const Tensor x = ctx.make({p.rows, p.k}, DType::kU8), scales = ctx.make({p.rows}, DType::kF32);
  quantize_rows(p, x.raw(), scales.data<float>(), stream_of(ctx));
  const Tensor sums = ctx.make({p.rows, p.n}, DType::kF32);
  if (!multiply(ctx, x, args.weight->data(), p.k, {}, false, sums))
    return run_widened(ctx, args, p);
  Epilogue epilogue = p.epilogue;
  epilogue.row_scales = scales.data<float>();
  finish_product(sums.data<float>(), 1, p.rows, p.n, epilogue, stream_of(ctx));
}

}  // namespace

void finish_product(const float* sums, int parts, int64_t rows, int64_t n, const Epilogue& epilogue,
                    LaunchStream stream) {
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>(ceil_div(n, kFinishThreads * kColumns)));
  with_type(epilogue.out_type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(finish_kernel<T>, grid, kFinishThreads, 0, stream, sums, parts, rows, n,
                  epilogue);
  });
  after_launch("finish_product");
}

void linear(Context& ctx, const ops::LinearArgs& args) {
  const WeightProduct p = product_of(args);
  // (A norm in the product, by each block anew, cost more than its launch on an H100 at any number
  // of rows.)
  if (args.norm != nullptr) cuda::layer_norm(ctx, *args.norm);
  const auto at =
      reinterpret_cast<uintptr_t>(p.x) | static_cast<uintptr_t>(p.x_stride) * size_of(p.type);
  const auto& backend = static_cast<CudaBackend&>(ctx.backend());
  const int capability = backend.capability();
  const bool invariant = backend.batch_invariant();
  const WeightShape shape{p.rows,         p.n,          p.k,        p.type,
                          p.quantization, at % 16 == 0, capability, invariant};
  switch (weight_path(shape)) {
    case WeightPath::kRows: return weight_rows(p, stream_of(ctx));
    case WeightPath::kTiles: return run_tiles(ctx, p);
    case WeightPath::kFp8Product: return run_fp8(ctx, args, p);
    case WeightPath::kProduct: break;
  }
  if (p.quantization != Quantization::kNone) return run_widened(ctx, args, p);
  if ((invariant || p.rows <= backend.most_cluster_rows()) && takes_cluster_tiles(p, capability))
    return cluster_tiles(p, capability, stream_of(ctx));
  if (invariant) return weight_rows(p, stream_of(ctx));
  if (p.rows <= backend.most_direct_rows(p) && takes_direct_tiles(p, capability))
    return direct_tiles(p, stream_of(ctx));
  if (p.rows >= backend.least_wide_rows() && takes_wide_tiles(p, capability) &&
      wide_tiles(p, backend.multiprocessors(), stream_of(ctx)))
    return;
  const bool relu = args.activation == Activation::kRelu;
  if (!multiply(ctx, args.x, args.weight->data(), p.k, args.bias, relu, args.out))
    return weight_rows(p, stream_of(ctx));
  if (!relu) activate_rows(ctx, args.activation, args.out);
}

}  // namespace tandem::cuda
