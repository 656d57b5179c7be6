// The table of the level in use.
#include "kernels/cpu/isa/isa.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "kernels/core/cpu_features.h"

namespace tandem::cpu {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t ask_first_cache() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const int64_t bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 ? bytes : 0;
#else
  return 0;
#endif
}

std::atomic<int64_t>& first_cache() {
  static std::atomic<int64_t> bytes{ask_first_cache()};
  return bytes;
}

constexpr size_t kLevels = static_cast<size_t>(CpuIsa::kNeonBf16) + 1;

// By level. Levels of other processors, which cpu_isa() never is, have the plain kernels.
std::array<IsaKernels, kLevels> all_tables() {
  std::array<IsaKernels, kLevels> tables;
  tables.fill(kGenericKernels);
  const auto at = [&](CpuIsa isa) -> IsaKernels& { return tables[static_cast<size_t>(isa)]; };
  [[maybe_unused]] const auto extend = [&](CpuIsa isa, CpuIsa before, void (*use)(IsaKernels&)) {
    use(at(isa) = at(before));
  };
#if defined(__x86_64__)
  at(CpuIsa::kAvx2) = kAvx2Kernels;
  at(CpuIsa::kAvx512) = kAvx512Kernels;
  extend(CpuIsa::kAvx512Vnni, CpuIsa::kAvx512, use_avx512_vnni);
  extend(CpuIsa::kAvx512Bf16, CpuIsa::kAvx512Vnni, use_avx512_bf16);
#if defined(TANDEM_HAVE_AMX)
  extend(CpuIsa::kAmx, CpuIsa::kAvx512Bf16, use_amx);
#endif
#elif defined(__aarch64__)
  at(CpuIsa::kNeon) = kNeonKernels;
  extend(CpuIsa::kNeonDot, CpuIsa::kNeon, use_neon_dot);
  extend(CpuIsa::kNeonBf16, CpuIsa::kNeonDot, use_neon_bf16);
#endif
  return tables;
}

}  // namespace

const IsaKernels& isa_kernels() {
  static const std::array<IsaKernels, kLevels> tables = all_tables();
  return tables[static_cast<size_t>(cpu_isa())];
}

int64_t first_cache_bytes() { return first_cache().load(std::memory_order_relaxed); }

void set_first_cache_bytes(int64_t bytes) {
  first_cache().store(bytes < 0 ? ask_first_cache() : bytes, std::memory_order_relaxed);
}

int64_t ragged_packed_floats(int64_t keys, int head_dim) {
  return round_up(keys, kPanelColumns) * head_dim +
         round_up(keys * round_up(head_dim, kPanelColumns), kLanes16);
}

int64_t ragged_scratch_floats(int64_t keys, int head_dim) {
  return round_up(int64_t{kRaggedRows} * head_dim, kLanes16) + kRaggedRows * kPanelColumns +
         kRaggedRows * (round_up(keys, kPanelColumns) + kPanelColumns);
}

// Pairs of keys and of values, and the scales of keys and of blocks of values.
int64_t ragged_16_packed_floats(int64_t keys, int head_dim) {
  const int64_t width = round_up(head_dim, kPanelColumns);
  return round_up(keys, kPanelColumns) * (round_up(head_dim, 32) / 2 + 1) +
         round_up(keys, 32) / 2 * width + round_up(keys, kRagged16Keys) / kRagged16Keys * width;
}

// Queries, scores, sums of values, and those of a block.
int64_t ragged_16_scratch_floats(int head_dim) {
  return kRagged16Rows * (round_up(head_dim, 32) / 2 + kRagged16Keys + kLanes16 +
                          round_up(head_dim, kPanelColumns) + kLanes16 + kPanelColumns);
}

int64_t paged_scratch_floats(int64_t rows, int64_t keys, int head_dim) {
  return rows * (2 * round_up(head_dim, kLanes16) + round_up(keys, kLanes16)) +
         round_up(rows, kLanes16);
}

}  // namespace tandem::cpu
