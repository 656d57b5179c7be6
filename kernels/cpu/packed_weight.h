// How a packed weight lies in the CPU's memory: panels of 64 output features, each [steps][64] of
// 4 bytes. A step is one k in f32, a pair in bf16, four in int8; what is beyond N or K is zero. In
// int8 the scales of the 64 features follow (f32), then 128 times the sums of their weights (i32).
#pragma once

#include "kernels/core/types.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

constexpr int64_t kStepBytes = kPanelColumns * 4;

constexpr int64_t inputs_of_step(DType dtype) { return static_cast<int64_t>(4 / size_of(dtype)); }
constexpr int64_t steps_of(int64_t k, DType dtype) { return ceil_div(k, inputs_of_step(dtype)); }
constexpr int64_t panel_bytes(int64_t k, DType dtype) {
  return (steps_of(k, dtype) + (dtype == DType::kI8 ? 2 : 0)) * kStepBytes;
}

}  // namespace tandem::cpu
