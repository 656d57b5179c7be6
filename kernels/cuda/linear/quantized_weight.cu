// Quantises the weights of linear layers when they are loaded, and writes them out again for
// products of many rows. Rounding is to the nearest, ties to even.
//
// A weight comes to the device as f32, some rows at a time, and is quantised there. A feature (in
// int4 a group) with a NaN or an infinity has the scale NaN, which makes its products NaN; one
// below 1e-30 in all elements has the scale 0.
#include <algorithm>

#include "kernels/cuda/linear/quantized_weight.h"
#include "kernels/cuda/linear/weight_products.h"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {
namespace {

constexpr int kQuantizeThreads = 128;
constexpr float kLeastRange = 1e-30f;  // below, an inverse could overflow

// Of a block: the largest magnitude of a row; NaN if one is not finite. `scratch`: 33 values.
template <class T>
__device__ float largest_of(const T* row, int64_t k, float* scratch) {
  float largest = 0.0f, strange = 0.0f;
  for (int64_t i = threadIdx.x; i < k; i += kQuantizeThreads) {
    const float size = fabsf(to_float(row[i]));
    if (!(size < INFINITY)) strange = 1.0f;
    largest = fmaxf(largest, size);
  }
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, offset));
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = largest;
  const bool any = __syncthreads_or(strange != 0.0f) != 0;
  for (int i = 0; i < kQuantizeThreads / kWarpSize; ++i) largest = fmaxf(largest, scratch[i]);
  return any ? NAN : largest;
}

// The scale of a row and what its elements are multiplied by; `top` is what the largest becomes.
struct RowScale {
  float scale, inverse;
};
__device__ __forceinline__ RowScale scale_of(float largest, float top) {
  if (largest != largest) return {NAN, 0.0f};
  if (largest < kLeastRange) return {0.0f, 0.0f};
  return {largest / top, top / largest};
}

__device__ __forceinline__ uint8_t quantized(Int8, float x, float inverse) {
  return static_cast<uint8_t>(inverse == 0.0f ? 128 : 128 + __float2int_rn(x * inverse));
}
__device__ __forceinline__ uint8_t quantized(Fp8, float x, float inverse) {
  return inverse == 0.0f ? uint8_t{0} : to_e4m3(x * inverse);
}
__device__ __forceinline__ float top_of(Int8) { return 127.0f; }
__device__ __forceinline__ float top_of(Fp8) { return 448.0f; }

// A block for each row of [*, k]; `pitch` bytes are written.
template <class T, class Kind>
__global__ void quantize_rows_kernel(const T* x, int64_t stride, int64_t k, uint8_t* out,
                                     int64_t pitch, float* scales) {
  wait_for_earlier_kernels();
  __shared__ float scratch[33];
  const T* row = x + blockIdx.x * stride;
  const RowScale s = scale_of(largest_of(row, k, scratch), top_of(Kind()));
  if (threadIdx.x == 0) scales[blockIdx.x] = s.scale;
  for (int64_t i = threadIdx.x; i < pitch; i += kQuantizeThreads)
    out[blockIdx.x * pitch + i] =
        quantized(Kind(), i < k ? to_float(row[i]) : 0.0f, i < k ? s.inverse : 0.0f);
}

// Of a warp, 4 neighbours to a lane; all lanes get the result.
__device__ __forceinline__ float warp_least(float x) {
  for (int offset = 16; offset > 0; offset /= 2)
    x = fminf(x, __shfl_xor_sync(kFullWarp, x, offset));
  return x;
}
__device__ __forceinline__ float warp_total(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}

struct Int4Range {
  float scale, inverse, zero;
  __device__ __forceinline__ float of(float x) const {
    return fminf(fmaxf(rintf(x * inverse) + zero, 0.0f), 15.0f);
  }
};
// From low <= 0 to high >= 0, as far as 16 values a scale apart with 0 among them reach.
__device__ __forceinline__ Int4Range int4_range(float low, float high) {
  if (high - low < kLeastRange) return {0.0f, 0.0f, 0.0f};
  Int4Range r{};
  r.scale = __uint_as_float(__float_as_uint((high - low) / 15.0f) & ~15u);
  r.inverse = 1.0f / r.scale;
  r.zero = fminf(fmaxf(rintf(-low * r.inverse), 0.0f), 15.0f);
  return r;
}

// A group's range is the one of these parts of what it spans that leaves the least squared error.
constexpr int kRanges = 10;
__device__ __forceinline__ Int4Range best_range(const float (&x)[4], float low, float high) {
  Int4Range best{};
  float least = INFINITY;
  for (int i = 0; i < kRanges; ++i) {
    const float part = 1.0f - 0.04f * static_cast<float>(i);
    const Int4Range r = int4_range(low * part, high * part);
    float error = 0.0f;
    for (const float value : x) {
      const float d = r.scale * (r.of(value) - r.zero) - value;
      error = fmaf(d, d, error);
    }
    error = warp_total(error);
    if (error < least) {
      least = error;
      best = r;
    }
  }
  return best;
}

// A warp for each group of a row of [*, k].
__global__ void quantize_groups_kernel(const float* x, int64_t k, uint32_t* out, float* scales) {
  wait_for_earlier_kernels();
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t first = int64_t{blockIdx.y} * kQuantizedGroup + lane * 4;
  float values[4], low = 0.0f, high = 0.0f;
  bool strange = false;
  for (int i = 0; i < 4; ++i) {
    values[i] = first + i < k ? x[blockIdx.x * k + first + i] : 0.0f;
    strange |= !(fabsf(values[i]) < INFINITY);
    low = fminf(low, values[i]);
    high = fmaxf(high, values[i]);
  }
  strange = __any_sync(kFullWarp, strange);
  low = warp_least(low);
  high = -warp_least(-high);
  Int4Range r{};
  if (!strange) r = best_range(values, low, high);
  // Element e of 8 is in bits 4 (e / 2) + 16 (e % 2).
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) {
    const int e = lane % 2 * 4 + i;
    const uint32_t q = strange ? 0u : static_cast<uint32_t>(r.of(values[i]));
    bits |= q << (e / 2 * 4 + e % 2 * 16);
  }
  bits |= __shfl_xor_sync(kFullWarp, bits, 1);
  const int64_t group = blockIdx.x * int64_t{gridDim.y} + blockIdx.y;
  if (lane % 2 == 0) out[group * (kQuantizedGroup / 8) + lane / 2] = bits;
  if (lane == 0)
    scales[group] = strange
                        ? __uint_as_float(0x7fc00000u)
                        : __uint_as_float(__float_as_uint(r.scale) | static_cast<uint32_t>(r.zero));
}

void quantize(const Tensor& rows, Quantization q, void* out, float* scales, LaunchStream stream) {
  const int64_t k = rows.dim(1), pitch = quantized_pitch(q, k);
  const auto count = static_cast<unsigned>(rows.dim(0));
  const auto* x = rows.data<float>();
  if (q == Quantization::kInt4) {
    const dim3 grid(count, static_cast<unsigned>(quantized_groups(k)));
    TANDEM_LAUNCH(quantize_groups_kernel, grid, kWarpSize, 0, stream, x, k,
                  static_cast<uint32_t*>(out), scales);
  } else if (q == Quantization::kInt8) {
    TANDEM_LAUNCH((quantize_rows_kernel<float, Int8>), count, kQuantizeThreads, 0, stream, x, k, k,
                  static_cast<uint8_t*>(out), pitch, scales);
  } else {
    TANDEM_LAUNCH((quantize_rows_kernel<float, Fp8>), count, kQuantizeThreads, 0, stream, x, k, k,
                  static_cast<uint8_t*>(out), pitch, scales);
  }
  after_launch("quantize_weight");
}

// 8 weights a thread.
template <class T, class Kind>
__global__ void widen_kernel(const char* weight, int64_t pitch, const float* group_scales,
                             int64_t k, T* out) {
  wait_for_earlier_kernels();
  const int64_t first = (int64_t{blockIdx.y} * kQuantizeThreads + threadIdx.x) * 8;
  if (first >= k) return;
  const char* row = weight + blockIdx.x * pitch;
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(row) + first / Kind::kElements);
  GroupScale group{};
  if constexpr (Kind::kGroups)
    group = group_scale(group_scales[blockIdx.x * ((k + 127) / 128) + first / 128]);
  float values[8];
  Kind::widen(raw, static_cast<int>(first % Kind::kElements) / 8, group, values);
  for (int i = 0; i < 8 && first + i < k; ++i)
    out[blockIdx.x * k + first + i] = from_float<T>(values[i]);
}

}  // namespace

QuantizedWeight quantize_weight(Context& ctx, std::span<const MatrixView> parts, Quantization q) {
  int64_t n = 0;
  for (const MatrixView& part : parts) n += part.rows;
  const int64_t k = parts[0].columns, pitch = quantized_pitch(q, k);
  const Shape scales = q == Quantization::kInt4 ? Shape{n, quantized_groups(k)} : Shape{n};
  QuantizedWeight out{ctx.backend().allocate({n, pitch}, DType::kU8),
                      ctx.backend().allocate(scales, DType::kF32)};
  if (n * k == 0) return out;
  // Rows as f32, 64 MiB of them at a time.
  const int64_t most = std::max<int64_t>(1, (int64_t{16} << 20) / k);
  int64_t to = 0;
  for (const MatrixView& part : parts) {
    for (int64_t row = 0; row < part.rows; row += most) {
      MatrixView some = part;
      some.rows = std::min(most, part.rows - row);
      some.data = static_cast<const std::byte*>(part.data) +
                  static_cast<size_t>(row * part.row_stride) * size_of(part.dtype);
      const Tensor rows = pack_weight(ctx, {&some, 1}, DType::kF32);
      quantize(rows, q, static_cast<std::byte*>(out.data.raw()) + to * pitch,
               out.scales.data<float>() + to * (out.scales.size() / n), stream_of(ctx));
      to += some.rows;
      ctx.backend().synchronize();  // before the rows go
    }
  }
  return out;
}

void widen_weight(const WeightProduct& p, void* out, LaunchStream stream) {
  const dim3 grid(static_cast<unsigned>(p.n),
                  static_cast<unsigned>(ceil_div(p.k, kQuantizeThreads * 8)));
  with_type(p.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_quantization(p.quantization, [&](auto kind) {
      TANDEM_LAUNCH((widen_kernel<T, decltype(kind)>), grid, kQuantizeThreads, 0, stream,
                    static_cast<const char*>(p.weight), p.pitch, p.group_scales, p.k,
                    static_cast<T*>(out));
    });
  });
  after_launch("widen_weight");
}

void quantize_rows(const WeightProduct& p, void* out, float* scales, LaunchStream stream) {
  with_type(p.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH((quantize_rows_kernel<T, Fp8>), static_cast<unsigned>(p.rows), kQuantizeThreads,
                  0, stream, static_cast<const T*>(p.x), p.x_stride, p.k,
                  static_cast<uint8_t*>(out), p.k, scales);
  });
  after_launch("quantize_rows");
}

}  // namespace tandem::cuda
