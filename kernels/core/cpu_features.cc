// Reads the CPU's features and the override in the environment.
#include "kernels/core/cpu_features.h"

#if defined(TANDEM_HAVE_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr CpuIsa kLevels[] = {CpuIsa::kGeneric,    CpuIsa::kAvx2,       CpuIsa::kAvx512,
                              CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16, CpuIsa::kAmx};

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
  }
  return "?";
}

CpuIsa best_cpu_isa() {
  static const CpuIsa best = find_best();
  return best;
}

CpuIsa cpu_isa_from_name(std::string_view name) {
  for (CpuIsa isa : kLevels) {
    if (name != name_of(isa)) continue;
    if (isa > best_cpu_isa())
      throw not_supported("TANDEM_CPU_ISA", "this CPU does not have " + std::string(name) +
                                                ", its best is " + name_of(best_cpu_isa()));
    return isa;
  }
  throw invalid_request("TANDEM_CPU_ISA",
                        "expected generic, avx2, avx512, avx512_vnni, avx512_bf16 or amx, got \"" +
                            std::string(name) + "\"");
}

CpuIsa cpu_isa() { return current().load(std::memory_order_relaxed); }

void set_cpu_isa(CpuIsa isa) {
  TANDEM_CHECK(isa <= best_cpu_isa());
  current().store(isa, std::memory_order_relaxed);
}

}  // namespace tandem
