// The kernels of CpuIsa::kGeneric; compiled with the flags of that level (kernels/CMakeLists.txt).
#include "kernels/cpu/isa/isa.h"

namespace tandem::cpu {
namespace {
#include "kernels/cpu/isa/simd_generic.inl"
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
#include "kernels/cpu/isa/attention_window.inl"
//
#include "kernels/cpu/isa/row_math.inl"
}  // namespace

#define TANDEM_ISA_TABLE kGenericKernels
#include "kernels/cpu/isa/table.inl"

}  // namespace tandem::cpu
