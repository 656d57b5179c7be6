// The level of CPU kernels that this process runs (kernels/cpu/isa/isa.h). Chosen once: the best
// level of the CPU, or the one that TANDEM_CPU_ISA names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem {

// Each level includes the ones before it, of its own processors.
enum class CpuIsa : uint8_t {
  kGeneric,     // any CPU
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Vnni,  // and vpdpbusd
  kAvx512Bf16,  // and vdpbf16ps
  kAmx,         // and AMX tiles of bf16 and int8
  kNeon,        // any 64-bit ARM
  kNeonDot,     // and sdot
  kNeonBf16,    // and bfdot
};

// "generic", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx", "neon", "neon_dot", "neon_bf16"
const char* name_of(CpuIsa isa);

// The levels that this CPU and this build have, the lowest first: up to best_cpu_isa().
std::span<const CpuIsa> cpu_isas();

// The best level of this CPU and this build. The first call asks the system for AMX tiles, for all
// threads of the process. If it refuses, kAmx is not offered.
CpuIsa best_cpu_isa();

// The level of that name. Throws InputError if there is none, or if it is not among cpu_isas().
CpuIsa cpu_isa_from_name(std::string_view name);

// The level in use. Throws InputError at the first call if TANDEM_CPU_ISA names no level, or one
// that this CPU does not have.
CpuIsa cpu_isa();

// Switches the level, between ops only. For tests and benchmarks; one of cpu_isas().
void set_cpu_isa(CpuIsa isa);

}  // namespace tandem
