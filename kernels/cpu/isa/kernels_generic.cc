// The kernels of CpuIsa::kGeneric; compiled with the flags of that level (kernels/CMakeLists.txt).
#include "kernels/cpu/isa.h"

namespace tandem::cpu {
namespace {
#include "kernels/cpu/simd_generic.inl"
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

#define TANDEM_ISA_TABLE kGenericKernels
#include "kernels/cpu/table.inl"

}  // namespace tandem::cpu
