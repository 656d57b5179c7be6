// Stands in for kernels/cuda/hardware/warpgroup.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_emulator.h"
#include "kernels/cuda/hardware/tile_descriptor.cuh"

#define TANDEM_WARP_GROUP_PRODUCTS 1

namespace tandem::cuda {

constexpr int kGroupThreads = 128;

template <class Kernel>
bool has_products(Kernel) {
  return true;
}

inline void products_fence() { cuda_emulator::group_fence(); }
inline void products_commit() { cuda_emulator::group_commit(); }
template <int kLeft>
void products_wait() {
  cuda_emulator::group_wait(kLeft);
}
inline void stores_before_products() { cuda_emulator::stores_before_async(); }

template <int kCount>
void pin(float (&)[kCount]) {}
inline void pin(int&) {}

template <class T>
void multiply_m64n128k16(float (&d)[64], uint64_t a, uint64_t b, bool add) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  cuda_emulator::group_multiply({d, a, b, add, std::is_same_v<T, __nv_bfloat16>, 128});
}

// (Registers are not counted here.)
template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}

}  // namespace tandem::cuda
