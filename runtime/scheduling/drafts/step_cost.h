// What steps are believed to cost before any has been seen (docs/scheduling.md §10).
#pragma once

#include "kernels/core/cpu_features.h"
#include "kernels/core/types.h"

namespace tandem {

// Rows of a step whose computation takes as long as what a step takes however few they are, most of
// all reading the weights.
inline constexpr double kRowsOfAStep = 2.5;

// The same for weights of a type, on a level. Tiles compute up to 16 rows in the time of one: a
// step in int8 took 6, 6, 10 and 16 ms with 1, 8, 16 and 32 rows.
inline double rows_of_a_step(DType dtype, CpuIsa isa) {
  const bool tiles = isa == CpuIsa::kAmx && (dtype == DType::kBF16 || dtype == DType::kI8);
  return tiles ? 10 : kRowsOfAStep;
}

}  // namespace tandem
