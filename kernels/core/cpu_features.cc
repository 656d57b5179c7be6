// Reads the CPU's features and the override in the environment.
#include "kernels/core/cpu_features.h"

#if defined(TANDEM_HAVE_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr CpuIsa kX86Levels[] = {CpuIsa::kGeneric,    CpuIsa::kAvx2,       CpuIsa::kAvx512,
                                 CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16, CpuIsa::kAmx};
constexpr CpuIsa kArmLevels[] = {CpuIsa::kGeneric, CpuIsa::kNeon, CpuIsa::kNeonDot,
                                 CpuIsa::kNeonBf16};

// Of the build's processor, whether this one has them or not.
std::span<const CpuIsa> levels() {
#if defined(__aarch64__)
  return kArmLevels;
#else
  return kX86Levels;
#endif
}

#if defined(TANDEM_HAVE_AMX)
// Whether the CPU has AMX for bf16 and int8 and the system lets this process use it.
bool get_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;  // of leaf 7
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if (!(d & kBf16) || !(d & kTile) || !(d & kInt8)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

CpuIsa find_best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuIsa::kGeneric;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CpuIsa::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return CpuIsa::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuIsa::kAvx512Vnni;
#if defined(TANDEM_HAVE_AMX)
  if (get_amx()) return CpuIsa::kAmx;
#endif
  return CpuIsa::kAvx512Bf16;
#elif defined(__aarch64__)
  if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return CpuIsa::kNeon;
  return getauxval(AT_HWCAP2) & HWCAP2_BF16 ? CpuIsa::kNeonBf16 : CpuIsa::kNeonDot;
#else
  return CpuIsa::kGeneric;
#endif
}

CpuIsa choose() {
  const char* wanted = std::getenv("TANDEM_CPU_ISA");
  return wanted == nullptr || *wanted == '\0' ? best_cpu_isa() : cpu_isa_from_name(wanted);
}

std::atomic<CpuIsa>& current() {
  static std::atomic<CpuIsa> isa{choose()};
  return isa;
}

}  // namespace

const char* name_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric: return "generic";
    case CpuIsa::kAvx2: return "avx2";
    case CpuIsa::kAvx512: return "avx512";
    case CpuIsa::kAvx512Vnni: return "avx512_vnni";
    case CpuIsa::kAvx512Bf16: return "avx512_bf16";
    case CpuIsa::kAmx: return "amx";
    case CpuIsa::kNeon: return "neon";
    case CpuIsa::kNeonDot: return "neon_dot";
    case CpuIsa::kNeonBf16: return "neon_bf16";
  }
  return "?";
}

CpuIsa best_cpu_isa() {
  static const CpuIsa best = find_best();
  return best;
}

std::span<const CpuIsa> cpu_isas() {
  const auto all = levels();
  const auto best = std::ranges::find(all, best_cpu_isa());
  return all.first(static_cast<size_t>(best - all.begin()) + 1);
}

CpuIsa cpu_isa_from_name(std::string_view name) {
  const auto named = [&](CpuIsa isa) { return name == name_of(isa); };
  for (const CpuIsa isa : cpu_isas())
    if (named(isa)) return isa;
  if (std::ranges::any_of(kX86Levels, named) || std::ranges::any_of(kArmLevels, named))
    throw not_supported("TANDEM_CPU_ISA", "this CPU does not have " + std::string(name) +
                                              ", its best is " + name_of(best_cpu_isa()));
  std::string known;
  for (const CpuIsa isa : levels()) known += std::string(known.empty() ? "" : ", ") + name_of(isa);
  throw invalid_request("TANDEM_CPU_ISA",
                        "expected one of " + known + ", got \"" + std::string(name) + "\"");
}

CpuIsa cpu_isa() { return current().load(std::memory_order_relaxed); }

void set_cpu_isa(CpuIsa isa) {
  TANDEM_CHECK(std::ranges::find(cpu_isas(), isa) != cpu_isas().end());
  current().store(isa, std::memory_order_relaxed);
}

}  // namespace tandem
