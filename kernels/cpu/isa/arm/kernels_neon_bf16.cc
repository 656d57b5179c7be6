// What CpuIsa::kNeonBf16 does otherwise than the level before it; compiled with the flags of that
// level (kernels/CMakeLists.txt).
#include <arm_neon.h>

#include "kernels/cpu/isa/isa.h"

#define TANDEM_ISA_SDOT 1
#define TANDEM_ISA_BFDOT 1

namespace tandem::cpu {
namespace {
#include "kernels/cpu/isa/arm/simd_neon.inl"
//
#include "kernels/cpu/isa/arm/dot.inl"
//
#include "kernels/cpu/isa/math.inl"
//
#include "kernels/cpu/isa/gemm.inl"
//
#include "kernels/cpu/isa/rows.inl"
}  // namespace

void use_neon_bf16(IsaKernels& kernels) {
  kernels.gemm_bf16 = {gemm_bf16, nullptr, StepBf16::kWords, kVectorBlocking};
  kernels.to_bf16_steps = to_bf16_steps;
}

}  // namespace tandem::cpu
