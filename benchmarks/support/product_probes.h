// The rates of product instructions over registers, and of reading a buffer: what no kernel of this
// machine can pass. A best of some tries, all threads at once.
#pragma once

#include <algorithm>
#include <cstring>

#include "benchmarks/support/machine_probes.h"

#if defined(__GNUC__) && (__GNUC__ >= 11 || defined(__clang__))
#define TANDEM_PROBES_AMX
#endif

namespace tandem::bench {

#if defined(__x86_64__)
// Twelve chains hide the latency of an instruction on two ports.
[[gnu::target("avx512f,avx512bf16")]] inline double chains_bf16(int rounds) {
  __m512 acc[12];
  for (auto& a : acc) a = _mm512_setzero_ps();
  __m512i bits = _mm512_setzero_si512();
  for (int i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(bits));
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_dpbf16_ps(acc[j], (__m512bh)bits, (__m512bh)bits);
  }
  for (int j = 1; j < 12; ++j) acc[0] = _mm512_add_ps(acc[0], acc[j]);
  sink = _mm512_cvtss_f32(acc[0]);
  return 12.0 * 64 * rounds;
}
[[gnu::target("avx512f,avx512vnni")]] inline double chains_i8(int rounds) {
  __m512i acc[12];
  for (auto& a : acc) a = _mm512_setzero_si512();
  __m512i bits = _mm512_setzero_si512();
  for (int i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(bits));
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_dpbusd_epi32(acc[j], bits, bits);
  }
  for (int j = 1; j < 12; ++j) acc[0] = _mm512_add_epi32(acc[0], acc[j]);
  sink = static_cast<float>(_mm512_cvtsi512_si32(acc[0]));
  return 12.0 * 128 * rounds;
}

#ifdef TANDEM_PROBES_AMX
struct alignas(64) FullTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Four sums of 16 rows by 16 columns; of integers, or of bf16.
template <bool kIntegers>
[[gnu::target("amx-tile,amx-int8,amx-bf16")]] inline double chains_tiles(int rounds) {
  static const FullTiles shape;
  _tile_loadconfig(&shape);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int i = 0; i < rounds; ++i) {
    if constexpr (kIntegers) {
      _tile_dpbusd(0, 4, 5);
      _tile_dpbusd(1, 4, 5);
      _tile_dpbusd(2, 4, 5);
      _tile_dpbusd(3, 4, 5);
    } else {
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(1, 4, 5);
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 5);
    }
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * (kIntegers ? 64 : 32) * rounds;
}
#endif

// As kernels stream weights: whole lines, asked for some way ahead.
[[gnu::target("avx512f")]] inline void read_lines_avx512(const float* p, size_t n) {
  __m512 acc[4] = {};
  for (size_t i = 0; i + 64 <= n; i += 64)
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      __builtin_prefetch(p + i + 16 * j + 1024);
      acc[j] = _mm512_add_ps(acc[j], _mm512_loadu_ps(p + i + 16 * j));
    }
  sink =
      _mm512_cvtss_f32(_mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), _mm512_add_ps(acc[2], acc[3])));
}
#endif

// Operations of products in `type` (kF32, kBF16, kI8) by the fastest instruction of cpu_isa().
inline double run_products(DType type, int rounds) {
#if defined(__x86_64__)
#ifdef TANDEM_PROBES_AMX
  if (cpu_isa() >= CpuIsa::kAmx && type != DType::kF32)
    return type == DType::kI8 ? chains_tiles<true>(rounds / 16) : chains_tiles<false>(rounds / 16);
#endif
  if (cpu_isa() >= CpuIsa::kAvx512Vnni && type == DType::kI8) return chains_i8(rounds);
  if (cpu_isa() >= CpuIsa::kAvx512Bf16 && type == DType::kBF16) return chains_bf16(rounds);
#endif
  return run_chains(rounds);
}

inline void read_lines(const float* p, size_t n) {
#if defined(__x86_64__)
  if (cpu_isa() >= CpuIsa::kAvx512) return read_lines_avx512(p, n);
#endif
  read_memory(p, n);
}

// Operations a second. It goes on for a while: until then two threads may share a processor.
inline double product_rate(Context& ctx, DType type, int tries) {
  constexpr double kSeconds = 0.2;
  const double start = now();
  double best = 0;
  for (int i = 0; i < tries || now() < start + kSeconds; ++i)
    best = std::max(best, operation_rate(ctx, [type] { return run_products(type, 200'000); }));
  return best;
}

// Bytes a second of a buffer of so many, read again and again: a small one comes out of a cache.
inline double read_rate(Context& ctx, int64_t bytes, int tries) {
  Tensor buffer({bytes / 4}, DType::kF32);
  std::memset(buffer.raw(), 0, buffer.bytes());
  double best = 0;
  for (int i = 0; i < tries; ++i) best = std::max(best, read_rate(ctx, buffer, read_lines));
  return best;
}

}  // namespace tandem::bench
