// Products of a warp group on tensor cores (wgmma), of sm_90a alone: neither sm_90 nor later
// devices have them. What is compiled for others stops when it runs, so the host chooses.
//
// The four warps of a group, 128 threads from a multiple of 128 on, multiply together. Operands are
// tiles in shared memory (tile_descriptor.cuh), which are read while the threads go on:
//
//   products_fence();              // the sums' registers are as the threads left them
//   multiply_m64n128k16<T>(...);   // any number
//   products_commit();             // they are one batch
//   products_wait<N>();            // at most N batches are under way
//
// In between nobody reads or writes the sums, nor writes to the tiles. Tiles that come by
// tensor_copy (tensor_copy.cuh) are there when their barrier says so. Threads that write a tile
// themselves call stores_before_products(), and then a barrier.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hardware/tile_descriptor.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TANDEM_WARP_GROUP_PRODUCTS 1
#define TANDEM_SM90A(...) asm volatile(__VA_ARGS__)
#else
#define TANDEM_WARP_GROUP_PRODUCTS 0
#define TANDEM_SM90A(...) __trap()
#pragma nv_diag_suppress 177  // what only code with these products uses, in the files that include
                              // this too
#endif

namespace tandem::cuda {

constexpr int kGroupThreads = 128;

// Whether this kernel was compiled with such products, whose sums take 64 registers: a build for
// sm_90 has a trap in their place.
template <class... Parameters>
bool has_products(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)) == cudaSuccess &&
         attributes.numRegs >= 64;
}

__device__ __forceinline__ void products_fence() {
  TANDEM_SM90A("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void products_commit() {
  TANDEM_SM90A("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void products_wait() {
  TANDEM_SM90A("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
__device__ __forceinline__ void stores_before_products() {
  TANDEM_SM90A("fence.proxy.async.shared::cta;" ::: "memory");
}

// The compiler knows nothing of sums that are under way: it moves no access to them past this.
template <int kCount>
__device__ __forceinline__ void pin(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
// Nor does it know the value from here on.
__device__ __forceinline__ void pin(int& value) { asm volatile("" : "+r"(value)); }

// d = A B^T, or d += A B^T. A has 64 rows and B 128, of 16 elements of k. T: __nv_bfloat16 or
// __half. Of warp w of the group a lane has, of each 8 columns (j), rows 16 w + lane / 4 (d[4 j],
// d[4 j + 1]) and those 8 below (d[4 j + 2], d[4 j + 3]), columns 8 j + lane % 4 * 2 and the next.
template <class T>
__device__ __forceinline__ void multiply_m64n128k16(float (&d)[64], uint64_t a, uint64_t b,
                                                    bool add);
// (The same instruction but for the operands' type.)
#define TANDEM_M64N128K16(type)                                                                    \
  TANDEM_SM90A(                                                                                    \
      "{\n\t"                                                                                      \
      ".reg .pred add;\n\t"                                                                        \
      "setp.ne.b32 add, %66, 0;\n\t"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                 \
      " "                                                                                          \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                    \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "           \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "          \
      "%64, %65, add, 1, 1, 0, 0;\n\t"                                                             \
      "}"                                                                                          \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),        \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), \
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), \
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), \
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), \
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), \
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), \
        "+f"(d[63])                                                                                \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)))
template <>
__device__ __forceinline__ void multiply_m64n128k16<__nv_bfloat16>(float (&d)[64], uint64_t a,
                                                                   uint64_t b, bool add) {
  TANDEM_M64N128K16("bf16");
}
template <>
__device__ __forceinline__ void multiply_m64n128k16<__half>(float (&d)[64], uint64_t a, uint64_t b,
                                                            bool add) {
  TANDEM_M64N128K16("f16");
}
#undef TANDEM_M64N128K16

// Registers of each thread of the calling warp group, all of which call: fewer than the kernel was
// launched with, so that others may take more, or more, once they are there.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  TANDEM_SM90A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  TANDEM_SM90A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#undef TANDEM_SM90A

}  // namespace tandem::cuda
