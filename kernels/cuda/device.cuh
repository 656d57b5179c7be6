// What kernels share: conversions, vectors of 16 bytes, reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/core/types.h"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// So many elements that they fill 16 bytes.
template <class T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <class T>
struct alignas(16) Vector {
  T values[kVector<T>];
};

// Several elements at once; `from` is aligned to the word. What earlier kernels write is read so,
// not by __ldg, which a compiler may put before the wait for them.
template <class Word>
__device__ __forceinline__ Word load_as(const void* from) {
#if defined(__CUDA_ARCH__)
  return *static_cast<const Word*>(from);
#else
  return __ldg(static_cast<const Word*>(from));  // (compiled as C++ it looks at the alignment)
#endif
}

// x. A compiler no longer knows that all rounds of a loop have the same: what is made of it waits
// in no register from one to the next.
__device__ __forceinline__ int made_anew(int x) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// Sum over a block of up to 1024 threads, in whole warps. Every thread gets it.
// `scratch`: 33 values of shared memory, free again after the next barrier. A fixed tree: the same
// bits in every run.
template <class Value>
__device__ __forceinline__ Value block_sum(Value x, Value* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  if (warp == 0) {
    Value y = lane < warps ? scratch[lane] : Value(0);
    for (int offset = 16; offset > 0; offset /= 2) y += __shfl_xor_sync(kFullWarp, y, offset);
    if (lane == 0) scratch[32] = y;
  }
  __syncthreads();
  return scratch[32];
}

// Calls body(Type{}) with the C++ type of a DType of activations.
template <class T>
struct TypeTag {
  using type = T;
};
template <class Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32: return body(TypeTag<float>());
    case DType::kF16: return body(TypeTag<__half>());
    case DType::kBF16: return body(TypeTag<__nv_bfloat16>());
    default: TANDEM_CHECK(false, "no type of activations");
  }
}

}  // namespace tandem::cuda
