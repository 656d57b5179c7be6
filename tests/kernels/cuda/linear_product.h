// A product of the CUDA device against the reference, and devices on which a variable chooses its
// kernel.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem::testing {

struct LinearProduct {
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool bias, f32;
  Activation activation;
};

inline void check_product(Random& random, Context& ctx, const LinearProduct& c) {
  const DType dtype = ctx.activations(), out_type = c.f32 ? DType::kF32 : dtype;
  const Tensor x = rounded(random.matrix(c.rows, c.in), dtype),
               w = rounded(random.matrix(c.out, c.in), dtype);
  const Tensor bias =
      c.bias ? rounded(random.matrix(1, c.out), out_type).reshape({c.out}) : Tensor();
  const Tensor want({c.rows, c.out}, DType::kF32);
  reference::linear(view_of(w), x, bias, c.activation, want);

  // In two parts, as Q, K and V are.
  const int64_t half = c.out / 2;
  const Tensor w_parts[] = {w.rows(0, half), w.rows(half, c.out)};
  const MatrixView parts[] = {view_of(w_parts[0]), view_of(w_parts[1])};
  const PackedWeight packed(ctx, parts, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, c.step),
      out(ctx, random, c.rows, c.out, out_type, c.step);
  ops::linear(ctx, {&packed, there.tensor(), ctx.resident_bias(bias, out_type), c.activation,
                    out.tensor()});
  // Activations follow products that were rounded already.
  const Tensor allowed = allowed_of_product(w, x, bias, 0, half_ulp(out_type));
  EXPECT_TRUE(near(out.values(), want, allowed, 1.05 * half_ulp(out_type)))
      << name_of(dtype) << (c.f32 ? " to f32, " : ", ") << c.rows << " x " << c.in << " x " << c.out
      << (c.bias ? ", bias" : "") << ", activation " << static_cast<int>(c.activation);
}

// Of a device whose variable, TANDEM_DIRECT_ROWS or the like, says 128.
inline Context context_with_rows(const char* variable, DType dtype) {
  setenv(variable, "128", 1);
  Context ctx = cuda_context(dtype);
  unsetenv(variable);
  return ctx;
}

inline void expect_rows_are_checked(const char* variable) {
  for (const char* wrong : {"", "-1", "129", "8x"}) {
    setenv(variable, wrong, 1);
    EXPECT_THROW(cuda_context(DType::kF16), InputError) << wrong;
  }
  unsetenv(variable);
}

}  // namespace tandem::testing
