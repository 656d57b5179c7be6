// Reads the CPU's features and the override in the environment.
#include "kernels/core/cpu_features.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr CpuIsa kLevels[] = {CpuIsa::kGeneric, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni,
                              CpuIsa::kAvx512Bf16};

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
  }
  return "?";
}

CpuIsa best_cpu_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuIsa::kGeneric;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CpuIsa::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return CpuIsa::kAvx512;
  return __builtin_cpu_supports("avx512bf16") ? CpuIsa::kAvx512Bf16 : CpuIsa::kAvx512Vnni;
#else
  return CpuIsa::kGeneric;
#endif
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
                        "expected generic, avx2, avx512, avx512_vnni or "
                        "avx512_bf16, got \"" +
                            std::string(name) + "\"");
}

CpuIsa cpu_isa() { return current().load(std::memory_order_relaxed); }

void set_cpu_isa(CpuIsa isa) {
  TANDEM_CHECK(isa <= best_cpu_isa());
  current().store(isa, std::memory_order_relaxed);
}

}  // namespace tandem
