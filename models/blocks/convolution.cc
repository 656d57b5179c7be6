#include "models/blocks/convolution.h"

namespace tandem {

Convolution::Convolution(const Weights& w, const Build& b, const ConvolutionShape& shape,
                         Activation activation)
    : build_(b), shape_(shape), activation_(activation) {
  // [out, in, width] in the file: of each output feature one row, as ops::conv_windows has them.
  const HostTensor t = w.get("weight", {shape.out, shape.in, shape.width});
  const int64_t columns = shape.in * shape.width;
  const MatrixView view{t.data, t.dtype, shape.out, columns, columns};
  weight_ = PackedWeight(b.ctx, {&view, 1}, b.dtype == DType::kI8 ? DType::kBF16 : b.dtype);
  bias_ = b.ctx.resident_bias(to_float(w.get("bias", {shape.out})), b.ctx.activations());
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

}  // namespace tandem
