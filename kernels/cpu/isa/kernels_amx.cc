// What CpuIsa::kAmx does otherwise than the level before it; compiled with the flags of that level
// (kernels/CMakeLists.txt).
#include <immintrin.h>

#include "kernels/cpu/isa/isa.h"

#define TANDEM_ISA_VNNI 1
#define TANDEM_ISA_BF16 1
#define TANDEM_ISA_AMX 1

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
#include "kernels/cpu/isa/gemm_amx.inl"
//
#include "kernels/cpu/isa/softmax.inl"
//
#include "kernels/cpu/isa/attention_ragged.inl"
//
#include "kernels/cpu/isa/attention_16.inl"
//
#include "kernels/cpu/isa/attention_bf16.inl"
}  // namespace

void use_amx(IsaKernels& kernels) {
  kernels.gemm_bf16 = {gemm_amx<StepBf16>, finish_all<StepBf16>, StepBf16::kWords,
                       kTileBlockingBf16};
  kernels.gemm_i8 = {gemm_amx_i8, finish_all<StepI8>, StepI8::kWords, kTileBlockingI8};
  kernels.ragged_16 = {ragged_pack_bf16, ragged_attend_bf16, kBf16Rows};
}

}  // namespace tandem::cpu
