// Instructions of tensor cores and asynchronous copies, of sm_80; what is compiled for older
// devices stops when it runs, so the host chooses.
//
// Fragments of mma m16n8k16 (A 16 x 16 by rows, B 16 x 8 by columns, C and D 16 x 8), for a lane
// with group = lane / 4 and pair = lane % 4; a register of A and B holds two neighbours:
//   a[0], a[1], a[2], a[3]: A[group (+ 8 for a[1], a[3])][2 * pair, +1 (+ 8 for a[2], a[3])]
//   b[0], b[1]: B[2 * pair, +1 (+ 8 for b[1])][group]
//   c[0], c[1]: C[group][2 * pair, +1];  c[2], c[3]: the same of row group + 8
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hardware/shared_address.cuh"

namespace tandem::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define TANDEM_SM80(...) asm volatile(__VA_ARGS__)
#else
#define TANDEM_SM80(...) __trap()
#endif

// Matrices of 8 x 8 elements of 16 bits from shared memory: lanes 8 i .. 8 i + 7 give the addresses
// of matrix i's rows (16 bytes each, 16-byte aligned); r[i] of a lane is the pair `pair` of row
// `group` of matrix i. _trans: of the transposed matrix. (sm_75 has these.)
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// Two matrices, from the addresses of lanes 0 .. 15.
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
}

// c += A B. T: __nv_bfloat16 or __half.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_m16n8k16<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                            const uint32_t (&b)[2]) {
  TANDEM_SM80(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void mma_m16n8k16<__half>(float (&c)[4], const uint32_t (&a)[4],
                                                     const uint32_t (&b)[2]) {
  TANDEM_SM80(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 16 bytes from global to shared memory, both 16-byte aligned; zeros where `valid` is false (then
// `from` is not read). They are there after cp_async_commit, cp_async_wait and a barrier.
__device__ __forceinline__ void cp_async_16(void* to, const void* from, bool valid = true) {
  TANDEM_SM80("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
              "r"(valid ? 16 : 0)
              : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
  TANDEM_SM80("cp.async.commit_group;" ::: "memory");
}
// Waits until at most kGroupsLeft of this thread's committed groups are on their way.
template <int kGroupsLeft>
__device__ __forceinline__ void cp_async_wait() {
  TANDEM_SM80("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

#undef TANDEM_SM80

// 2^x, about.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace tandem::cuda
