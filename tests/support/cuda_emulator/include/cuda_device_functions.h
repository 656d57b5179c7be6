// What kernels call: barriers, warp primitives, atomics, bits and mathematics. Part of the CUDA
// emulator.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_emulator.h"

// --- barriers ---
inline void __syncthreads() { cuda_emulator::block_barrier("__syncthreads", 0); }
inline int __syncthreads_count(int value) {
  return cuda_emulator::block_barrier("__syncthreads_count", value).count;
}
inline int __syncthreads_and(int value) {
  return cuda_emulator::block_barrier("__syncthreads_and", value).all;
}
inline int __syncthreads_or(int value) {
  return cuda_emulator::block_barrier("__syncthreads_or", value).any;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cuda_emulator::warp_meet("__syncwarp", mask, nullptr, [](cuda_emulator::WarpMeeting&) {});
}
inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  cuda_emulator::maybe_yield();
}
inline void __threadfence_block() { cuda_emulator::maybe_yield(); }
inline void __threadfence_system() { cuda_emulator::maybe_yield(); }
inline void __nanosleep(unsigned) { cuda_emulator::yield(); }
inline void __trap() { cuda_emulator::fail("__trap"); }

// --- between the lanes of a warp ---
namespace cuda_emulator {

struct Shuffle {
  uint64_t in, out;
  unsigned from;  // a lane; kWarp: undefined
};

template <class T>
T shuffle(const char* name, unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  Shuffle data{0, 0, from};
  std::memcpy(&data.in, &value, sizeof value);
  warp_meet(name, mask, &data, [](WarpMeeting& lanes) {
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(lanes.mask >> i & 1)) continue;
      auto& to = *static_cast<Shuffle*>(lanes.data[i]);
      const bool there = to.from < kWarp && (lanes.mask >> to.from & 1);
      to.out = there ? static_cast<Shuffle*>(lanes.data[to.from])->in : ~uint64_t{0};
    }
  });
  std::memcpy(&value, &data.out, sizeof value);
  return value;
}

struct Votes {
  bool value;
  unsigned ballot, mask;
};

inline Votes vote(const char* name, unsigned mask, bool value) {
  Votes data{value, 0, 0};
  warp_meet(name, mask, &data, [](WarpMeeting& lanes) {
    unsigned ballot = 0;
    for (unsigned i = 0; i < kWarp; ++i)
      if (lanes.mask >> i & 1)
        ballot |= static_cast<unsigned>(static_cast<Votes*>(lanes.data[i])->value) << i;
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(lanes.mask >> i & 1)) continue;
      static_cast<Votes*>(lanes.data[i])->ballot = ballot;
      static_cast<Votes*>(lanes.data[i])->mask = lanes.mask;
    }
  });
  return data;
}

}  // namespace cuda_emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned first = cuda_emulator::lane() & ~static_cast<unsigned>(width - 1);
  const unsigned source = first + (static_cast<unsigned>(from) & static_cast<unsigned>(width - 1));
  return cuda_emulator::shuffle("__shfl_sync", mask, value, source);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cuda_emulator::lane(), first = lane & ~static_cast<unsigned>(width - 1);
  return cuda_emulator::shuffle("__shfl_up_sync", mask, value,
                                lane >= first + delta ? lane - delta : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = cuda_emulator::lane(), last = lane | static_cast<unsigned>(width - 1);
  return cuda_emulator::shuffle("__shfl_down_sync", mask, value,
                                lane + delta <= last ? lane + delta : lane);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const unsigned lane = cuda_emulator::lane(), last = lane | static_cast<unsigned>(width - 1);
  const unsigned source = lane ^ static_cast<unsigned>(bits);
  return cuda_emulator::shuffle("__shfl_xor_sync", mask, value, source <= last ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  return cuda_emulator::vote("__ballot_sync", mask, value != 0).ballot;
}
inline int __any_sync(unsigned mask, int value) {
  return cuda_emulator::vote("__any_sync", mask, value != 0).ballot != 0;
}
inline int __all_sync(unsigned mask, int value) {
  const auto votes = cuda_emulator::vote("__all_sync", mask, value != 0);
  return votes.ballot == votes.mask;
}
// Which lanes happen to go together: the hardware promises no more than the one that asks.
inline unsigned __activemask() { return 1u << cuda_emulator::lane(); }

// --- atomics: fibers give way only where they ask to; blocks of a cooperative launch are of
// several OS threads ---
namespace cuda_emulator {

template <class T, class F>
T update(T* at, F f) {
  maybe_yield();
  const std::atomic_ref<T> there(*at);
  T old = there.load();
  while (!there.compare_exchange_weak(old, f(old))) {
  }
  return old;
}

template <class T>
using Same = std::type_identity_t<T>;

}  // namespace cuda_emulator

#define CUDA_EMULATOR_ATOMIC(name, expression)         \
  template <class T>                                   \
  T name(T* at, cuda_emulator::Same<T> value) {        \
    return cuda_emulator::update(at, [=](T old) -> T { \
      (void)old;                                       \
      return expression;                               \
    });                                                \
  }
CUDA_EMULATOR_ATOMIC(atomicAdd, old + value)
CUDA_EMULATOR_ATOMIC(atomicSub, old - value)
CUDA_EMULATOR_ATOMIC(atomicMax, old > value ? old : value)
CUDA_EMULATOR_ATOMIC(atomicMin, old < value ? old : value)
CUDA_EMULATOR_ATOMIC(atomicExch, value)
CUDA_EMULATOR_ATOMIC(atomicAnd, old& value)
CUDA_EMULATOR_ATOMIC(atomicOr, old | value)
CUDA_EMULATOR_ATOMIC(atomicXor, old ^ value)
CUDA_EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
CUDA_EMULATOR_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CUDA_EMULATOR_ATOMIC
template <class T>
T atomicCAS(T* at, cuda_emulator::Same<T> expected, cuda_emulator::Same<T> value) {
  return cuda_emulator::update(at, [=](T old) { return old == expected ? value : old; });
}

// --- memory ---
template <class T>
T __ldg(const T* at) {
  if (reinterpret_cast<uintptr_t>(at) % alignof(T) != 0)
    ::cuda_emulator::fail("a load that is not aligned");
  T value;  // copied: what is there may have been stored as another type
  std::memcpy(static_cast<void*>(&value), at, sizeof(T));
  return value;
}
template <class T>
T __ldcg(const T* at) {
  return __ldg(at);
}
template <class T>
T __ldcs(const T* at) {
  return __ldg(at);
}
template <class T>
void __stcs(T* at, cuda_emulator::Same<T> value) {
  *at = value;
}
template <class T>
void __stcg(T* at, cuda_emulator::Same<T> value) {
  *at = value;
}
inline size_t __cvta_generic_to_shared(const void* at) { return cuda_emulator::shared_address(at); }

// --- bits ---
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline unsigned __brev(unsigned v) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (v >> i & 1) << (31 - i);
  return result;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return uint64_t{a} * b >> 32; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i);
    unsigned byte = bytes >> (8 * (pick & 7)) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
inline double __longlong_as_double(long long v) { return std::bit_cast<double>(v); }

// --- mathematics: the fast ones are as exact as the others here ---
inline float __expf(float v) { return std::exp(v); }
inline float __exp10f(float v) { return std::pow(10.0f, v); }
inline float __logf(float v) { return std::log(v); }
inline float __log2f(float v) { return std::log2(v); }
inline float __sinf(float v) { return std::sin(v); }
inline float __cosf(float v) { return std::cos(v); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __tanhf(float v) { return std::tanh(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fsqrt_rn(float v) { return std::sqrt(v); }
inline float __frsqrt_rn(float v) { return 1.0f / std::sqrt(v); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __saturatef(float v) { return v > 0 ? std::min(v, 1.0f) : 0.0f; }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }
inline int __float2int_rd(float v) { return static_cast<int>(std::floor(v)); }
inline int __float2int_ru(float v) { return static_cast<int>(std::ceil(v)); }
inline int __float2int_rz(float v) { return static_cast<int>(v); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline double rsqrt(double v) { return 1.0 / std::sqrt(v); }

// (int, float and so on mixed as in CUDA, where min and max need no namespace.)
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(
    A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return std::fmin(static_cast<T>(a), static_cast<T>(b));
  else
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(
    A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return std::fmax(static_cast<T>(a), static_cast<T>(b));
  else
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
