#include "models/blocks/convolution.h"

namespace tandem {

Convolution::Convolution(const Weights& w, const Build& b, const ConvolutionShape& shape,
                         Activation activation, Bias bias)
    : build_(b), shape_(shape), activation_(activation) {
  // [out, in, width] in the file: of each output feature one row, as ops::conv_windows has them.
  const HostTensor t = w.get("weight", {shape.out, shape.in, shape.width});
  const int64_t columns = shape.in * shape.width;
  const MatrixView view{t.data, t.dtype, shape.out, columns, columns};
  weight_ = PackedWeight(b.ctx, {&view, 1}, is_integer_compute(b.dtype) ? DType::kBF16 : b.dtype);
  if (bias == Bias::kNone) return;
  const auto values =
      bias == Bias::kRequired ? w.get("bias", {shape.out}) : w.find("bias", {shape.out});
  if (values) bias_ = b.ctx.resident_bias(to_float(*values), b.ctx.activations());
}

Convolution::Rows Convolution::rows_behind(const Tensor& start_loc) const {
  const Tensor from = build_.ctx.on_host(start_loc), to({from.dim(0)}, DType::kI32);
  const int32_t* rows = from.data<int32_t>();
  int32_t* starts = to.data<int32_t>();
  starts[0] = 0;
  for (int64_t s = 1; s < from.dim(0); ++s)
    starts[s] = starts[s - 1] + static_cast<int32_t>(rows_of(rows[s] - rows[s - 1], shape_));
  Rows out{to, starts[from.dim(0) - 1]};
  if (!build_.ctx.on_cpu()) {
    out.starts = build_.ctx.make({from.dim(0)}, DType::kI32);
    build_.ctx.backend().copy_in(to, out.starts);
  }
  return out;
}

Tensor Convolution::forward(const Tensor& x, const Tensor& start_loc, const Tensor& out_starts,
                            int64_t out_rows) const {
  const Tensor windows = build_.ctx.make({out_rows, shape_.in * shape_.width});
  ops::conv_windows(
      build_.ctx, {x, start_loc, out_starts, shape_.width, shape_.stride, shape_.padding, windows});
  const Tensor out = build_.ctx.make({out_rows, shape_.out});
  ops::linear(build_.ctx, {&weight_, windows, bias_, activation_, out});
  return out;
}

SequenceNorm::SequenceNorm(const Weights& w, const Build& b, int64_t features, float eps)
    : build_(b),
      weight_(b.ctx.resident(to_float(w.get("weight", {features})))),
      bias_(b.ctx.resident(to_float(w.get("bias", {features})))),
      eps_(eps) {}

void SequenceNorm::norm(const Tensor& x, const Tensor& start_loc) const {
  ops::sequence_norm(build_.ctx, {x, start_loc, weight_, bias_, eps_, x});
}

}  // namespace tandem
