// The emulation of what kernels/cuda/mma.cuh wraps: ldmatrix, mma and cp.async, with the layouts of
// PTX. Copies happen at the wait that promises them, so that a missing wait shows.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_emulator.h"

namespace cuda_emulator {

inline void check_aligned(const void* at) {
  if (reinterpret_cast<uintptr_t>(at) % 16 != 0) fail("an address is not 16-byte aligned");
}

template <int kMatrices>
struct MatrixLoad {
  const void* row;
  uint32_t* registers;
};

template <int kMatrices, bool kTransposed>
void load_matrices(uint32_t* registers, const void* row) {
  MatrixLoad<kMatrices> data{row, registers};
  warp_meet("ldmatrix", ~0u, &data, [](WarpMeeting& lanes) {
    if (lanes.mask != ~0u) fail("ldmatrix: lanes have ended");
    uint16_t matrices[kMatrices][8][8];
    for (unsigned i = 0; i < kMatrices * 8; ++i) {
      const void* from = static_cast<MatrixLoad<kMatrices>*>(lanes.data[i])->row;
      check_aligned(from);
      std::memcpy(matrices[i / 8][i % 8], from, 16);
    }
    for (unsigned i = 0; i < kWarp; ++i)
      for (unsigned m = 0; m < kMatrices; ++m) {
        const unsigned row = i / 4, column = i % 4 * 2;
        const auto& matrix = matrices[m];
        const uint32_t low = kTransposed ? matrix[column][row] : matrix[row][column];
        const uint32_t high = kTransposed ? matrix[column + 1][row] : matrix[row][column + 1];
        static_cast<MatrixLoad<kMatrices>*>(lanes.data[i])->registers[m] = high << 16 | low;
      }
  });
}

inline void ldmatrix_x4(uint32_t (&r)[4], const void* row) { load_matrices<4, false>(r, row); }
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) { load_matrices<4, true>(r, row); }
inline void ldmatrix_x2(uint32_t (&r)[2], const void* row) { load_matrices<2, false>(r, row); }
inline void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) { load_matrices<2, true>(r, row); }

struct MatrixProduct {
  float* c;
  const uint32_t *a, *b;
};

template <class T>
float element(uint32_t pair, unsigned index) {
  const auto bits = static_cast<uint16_t>(index == 0 ? pair : pair >> 16);
  return std::is_same_v<T, __half> ? f16_to_float(bits) : bf16_to_float(bits);
}

template <class T>
void mma_m16n8k16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  MatrixProduct data{c, a, b};
  warp_meet("mma.m16n8k16", ~0u, &data, [](WarpMeeting& lanes) {
    if (lanes.mask != ~0u) fail("mma: lanes have ended");
    float matrix_a[16][16], matrix_b[16][8];
    for (unsigned i = 0; i < kWarp; ++i) {
      const auto& from = *static_cast<MatrixProduct*>(lanes.data[i]);
      const unsigned group = i / 4, pair = i % 4 * 2;
      for (unsigned e = 0; e < 8; ++e)
        matrix_a[group + (e / 2 % 2) * 8][pair + e % 2 + e / 4 * 8] =
            element<T>(from.a[e / 2], e % 2);
      for (unsigned e = 0; e < 4; ++e)
        matrix_b[pair + e % 2 + e / 2 * 8][group] = element<T>(from.b[e / 2], e % 2);
    }
    for (unsigned i = 0; i < kWarp; ++i)
      for (unsigned e = 0; e < 4; ++e) {
        const unsigned row = i / 4 + e / 2 * 8, column = i % 4 * 2 + e % 2;
        float sum = static_cast<MatrixProduct*>(lanes.data[i])->c[e];
        for (unsigned k = 0; k < 16; ++k) sum += matrix_a[row][k] * matrix_b[k][column];
        static_cast<MatrixProduct*>(lanes.data[i])->c[e] = sum;
      }
  });
}

inline void cp_async_16(void* to, const void* from, bool valid = true) {
  check_aligned(to);
  if (valid) check_aligned(from);
  async_copy(to, from, 16, !valid);
}
inline void cp_async_commit() { async_commit(); }
template <int kGroupsLeft>
void cp_async_wait() {
  async_wait(kGroupsLeft);
}

}  // namespace cuda_emulator
