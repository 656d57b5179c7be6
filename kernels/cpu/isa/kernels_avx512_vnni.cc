// What CpuIsa::kAvx512Vnni does otherwise than the level before it; compiled with the flags of that
// level (kernels/CMakeLists.txt).
#include <immintrin.h>

#include "kernels/cpu/isa/isa.h"

#define TANDEM_ISA_VNNI 1

namespace tandem::cpu {
namespace {
#include "kernels/cpu/isa/simd_avx512.inl"
//
#include "kernels/cpu/isa/transpose_x86.inl"
//
#include "kernels/cpu/isa/math.inl"
//
#include "kernels/cpu/isa/gemm.inl"
//
#include "kernels/cpu/isa/rows.inl"
//
#include "kernels/cpu/isa/quantise.inl"
//
#include "kernels/cpu/isa/gemm_i4.inl"
}  // namespace

void use_avx512_vnni(IsaKernels& kernels) {
  kernels.gemm_i8 = {gemm<StepI8>, nullptr, StepI8::kWords, kVectorBlocking};
  kernels.to_i8_steps = to_i8_steps;
  kernels.gemm_i4 = gemm_i4;
  kernels.to_i4_groups = to_i4_groups;
}

}  // namespace tandem::cpu
