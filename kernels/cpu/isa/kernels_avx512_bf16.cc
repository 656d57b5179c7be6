// The kernels of CpuIsa::kAvx512Bf16; compiled with the flags of that level
// (kernels/CMakeLists.txt).
#include <immintrin.h>

#include "kernels/cpu/isa.h"

#define TANDEM_ISA_VNNI 1
#define TANDEM_ISA_BF16 1

namespace tandem::cpu {
namespace {
#include "kernels/cpu/simd_avx512.inl"
//
#include "kernels/cpu/transpose_x86.inl"
//
#include "kernels/cpu/math.inl"
//
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/rows.inl"
//
#include "kernels/cpu/quantise.inl"
//
#include "kernels/cpu/softmax.inl"
//
#include "kernels/cpu/attention_paged.inl"
#include "kernels/cpu/attention_ragged.inl"
}  // namespace

#define TANDEM_ISA_TABLE kAvx512Bf16Kernels
#include "kernels/cpu/table.inl"

}  // namespace tandem::cpu
