// The kernels of CpuIsa::kAvx2; compiled with the flags of that level (kernels/CMakeLists.txt).
#include <immintrin.h>

#include "kernels/cpu/isa/isa.h"

#define TANDEM_ISA_I8_MAGNITUDES
#define TANDEM_ISA_I16
#define TANDEM_ISA_WIDENS_BF16

namespace tandem::cpu {
namespace {
#include "kernels/cpu/isa/simd_avx2.inl"
//
#include "kernels/cpu/isa/transpose_x86.inl"
//
#include "kernels/cpu/isa/math.inl"
//
#include "kernels/cpu/isa/gemm.inl"
#include "kernels/cpu/isa/rows.inl"
//
#include "kernels/cpu/isa/quantise.inl"
//
#include "kernels/cpu/isa/gemm_i4.inl"
//
#include "kernels/cpu/isa/softmax.inl"
//
#include "kernels/cpu/isa/attention_paged.inl"
//
#include "kernels/cpu/isa/attention_shared.inl"
#include "kernels/cpu/isa/attention_strided.inl"
//
#include "kernels/cpu/isa/attention_ragged.inl"
//
#include "kernels/cpu/isa/attention_16.inl"
//
#include "kernels/cpu/isa/attention_i16.inl"
//
#include "kernels/cpu/isa/attention_window.inl"
//
#include "kernels/cpu/isa/row_math.inl"
}  // namespace

#define TANDEM_ISA_TABLE kAvx2Kernels
#include "kernels/cpu/isa/table.inl"

}  // namespace tandem::cpu
