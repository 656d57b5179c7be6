// Clocks, what the machine can do at this moment (its bandwidth, its rate of fused multiply-adds),
// and rows that say how near a kernel comes to it.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/core/context.h"
#include "kernels/core/cpu_features.h"
#include "kernels/core/tensor.h"

namespace tandem::bench {

// With one thread its CPU time counts, so that other programs on the machine do not.
inline bool cpu_time = false;

inline double now() {
  timespec t;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double seconds_of(const std::function<void()>& body) {
  const double start = now();
  body();
  return now() - start;
}

struct Timing {
  double best = 1e30, median = 0;
};

// --- What the machine can do ---------------------------------------------------------------------
inline std::atomic<float> sink;

template <class V>
[[gnu::always_inline]] inline void sum_lines(const float* p, size_t n, V* acc) {
  constexpr size_t kWidth = sizeof(V) / sizeof(float);
  for (size_t i = 0; i + 4 * kWidth <= n; i += 4 * kWidth)
    for (size_t j = 0; j < 4; ++j) {
      V v;
      std::memcpy(&v, p + i + j * kWidth, sizeof v);
      acc[j] += v;
    }
}

typedef float Vector4 __attribute__((vector_size(16)));

inline void read_memory(const float* p, size_t n) {
  Vector4 acc[4] = {};
  sum_lines(p, n, acc);
  sink = (acc[0] + acc[1] + acc[2] + acc[3])[0];
}

// Independent chains of fused multiply-adds; returns the floating-point operations done.
#if defined(__x86_64__)
[[gnu::target("avx512f")]] inline double chains_avx512(int rounds) {
  __m512 acc[16];
  for (auto& a : acc) a = _mm512_set1_ps(0.5f);
  __m512 x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
  for (int i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) acc[j] = _mm512_fmadd_ps(acc[j], x, y);
  }
  for (int j = 1; j < 16; ++j) acc[0] = _mm512_add_ps(acc[0], acc[j]);
  sink = _mm512_cvtss_f32(acc[0]);
  return 16.0 * 16 * 2 * rounds;
}
[[gnu::target("avx2,fma")]] inline double chains_avx2(int rounds) {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_set1_ps(0.5f);
  __m256 x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
  for (int i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 16
    for (int j = 0; j < 12; ++j) acc[j] = _mm256_fmadd_ps(acc[j], x, y);
  }
  for (int j = 1; j < 12; ++j) acc[0] = _mm256_add_ps(acc[0], acc[j]);
  sink = _mm256_cvtss_f32(acc[0]);
  return 12.0 * 8 * 2 * rounds;
}
#endif
inline double chains_scalar(int rounds) {
  float acc[8], x = 0.5f;
  for (auto& a : acc) a = 0.5f;
  for (int i = 0; i < rounds; ++i)
    for (float& a : acc) a = std::fma(a, x, 0.25f);
  sink = std::accumulate(acc, acc + 8, 0.0f);
  return 8.0 * 2 * rounds;
}

inline double run_chains(int rounds) {
#if defined(__x86_64__)
  if (cpu_isa() >= CpuIsa::kAvx512) return chains_avx512(rounds);
  if (cpu_isa() == CpuIsa::kAvx2) return chains_avx2(rounds);
#endif
  return chains_scalar(rounds / 16);
}

// Bytes a second of a buffer, read once by all threads: read(first float, how many).
inline double read_rate(Context& ctx, const Tensor& buffer,
                        const std::function<void(const float*, size_t)>& read) {
  constexpr int64_t kParts = 64;
  const int64_t part = buffer.size() / kParts;
  const double seconds = seconds_of([&] {
    ctx.pool().run(kParts, [&](int64_t i, int) {
      read(buffer.data<float>() + i * part, static_cast<size_t>(part));
    });
  });
  return static_cast<double>(part * kParts) * sizeof(float) / seconds;
}

// Operations a second of all threads: operate() says how many it did.
inline double operation_rate(Context& ctx, const std::function<double()>& operate) {
  std::vector<double> done(static_cast<size_t>(ctx.threads()));
  const double seconds = seconds_of([&] {
    ctx.pool().run(ctx.threads() * 4,
                   [&](int64_t, int thread) { done[static_cast<size_t>(thread)] += operate(); });
  });
  return std::accumulate(done.begin(), done.end(), 0.0) / seconds;
}

// The rates of this moment; a best that only rises.
class Probes {
 public:
  explicit Probes(Context& ctx) : ctx_(ctx), memory_({int64_t{64} << 20}, DType::kF32) {
    std::memset(memory_.raw(), 0, memory_.bytes());
  }
  void measure() {
    bandwidth_ = std::max(bandwidth_, read_rate(ctx_, memory_, read_memory));
    rate_ = std::max(rate_, operation_rate(ctx_, [] { return run_chains(20000); }));
  }
  double bandwidth() const { return bandwidth_; }
  double rate() const { return rate_; }

 private:
  Context& ctx_;
  Tensor memory_;
  double bandwidth_ = 0, rate_ = 0;
};

// Runs body(i) for about `seconds`, probing now and then.
inline Timing measure(Probes& probes, double seconds, const std::function<void(int)>& body) {
  std::vector<double> times;
  const double start = now();
  double next_probe = 0;
  for (int i = 0; i < 3 || now() - start < seconds; ++i) {
    if (now() - start >= next_probe) {
      probes.measure();
      next_probe += seconds / 4;
    }
    times.push_back(seconds_of([&] { body(i); }));
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// The same body at each of some levels of the CPU, in turns; no two calls have the same number.
inline std::vector<Timing> measure_levels(Probes& probes, double seconds,
                                          const std::vector<CpuIsa>& levels,
                                          const std::function<void(int)>& body) {
  std::vector<std::vector<double>> times(levels.size());
  measure(probes, seconds * static_cast<double>(levels.size()), [&](int i) {
    for (size_t l = 0; l < levels.size(); ++l) {
      set_cpu_isa(levels[l]);
      const int number = i * static_cast<int>(levels.size()) + static_cast<int>(l);
      times[l].push_back(seconds_of([&] { body(number); }));
    }
    set_cpu_isa(levels[0]);
  });
  std::vector<Timing> timings;
  for (std::vector<double>& t : times) {
    std::sort(t.begin(), t.end());
    timings.push_back({t.front(), t[t.size() / 2]});
  }
  return timings;
}

inline void print_row(const std::string& name, const Timing& t, double bytes, double operations,
                      const Probes& probes, double over_first = 0) {
  const double roof = std::max(bytes / probes.bandwidth(), operations / probes.rate());
  std::printf("%-34s %10.1f %10.1f %8.1f %8.1f   %5.1f %%", name.c_str(), t.best * 1e6,
              t.median * 1e6, bytes / t.best * 1e-9, operations / t.best * 1e-9,
              roof / t.best * 100);
  if (over_first > 0) std::printf("  %5.2f x", over_first);
  std::printf("\n");
  std::fflush(stdout);
}

inline void print_header(const char* title) {
  std::printf("\n%-34s %10s %10s %8s %8s   %s\n", title, "best us", "median us", "GB/s", "GFLOP/s",
              "of roofline");
}

}  // namespace tandem::bench
