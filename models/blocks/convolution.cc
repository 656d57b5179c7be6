#include "models/blocks/convolution.h"

#include <algorithm>
#include <vector>

#include "models/blocks/changed_weights.h"

namespace tandem {
namespace {

ConvolutionShape both_halves(ConvolutionShape shape) {
  shape.out *= 2;
  return shape;
}

// Of a tensor's first half of rows.
void multiply_half(std::vector<float>& values, float factor) {
  for (size_t i = 0; i < values.size() / 2; ++i) values[i] *= factor;
}

Convolution convolution_of_halves(const Weights& w, const Build& b, const ConvolutionShape& shape,
                                  float factor, Bias bias) {
  ChangedWeights changed(w);
  if (factor != 1.0f) {
    const Shape of_weight{shape.out, shape.in, shape.width};
    std::vector<float> values = values_of(w.get("weight", of_weight));
    multiply_half(values, factor);
    changed.put(w, "weight", of_weight, std::move(values));
    if (const auto found = bias == Bias::kNone ? std::nullopt : w.find("bias", {shape.out})) {
      values = values_of(*found);
      multiply_half(values, factor);
      changed.put(w, "bias", {shape.out}, std::move(values));
    }
  }
  return Convolution(changed.at(w), b, shape, Activation::kNone, bias);
}

}  // namespace

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

ConvolvedRows convolved_rows(Context& ctx, const Tensor& start_loc, const ConvolutionShape& shape) {
  const Tensor from = ctx.on_host(start_loc), to({from.dim(0)}, DType::kI32);
  const int32_t* rows = from.data<int32_t>();
  int32_t* starts = to.data<int32_t>();
  starts[0] = 0;
  for (int64_t s = 1; s < from.dim(0); ++s)
    starts[s] =
        starts[s - 1] + static_cast<int32_t>(Convolution::rows_of(rows[s] - rows[s - 1], shape));
  ConvolvedRows out{to, starts[from.dim(0) - 1]};
  if (!ctx.on_cpu()) {
    out.starts = ctx.make({from.dim(0)}, DType::kI32);
    ctx.backend().copy_in(to, out.starts);
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

GluConvolution::GluConvolution(const Weights& w, const Build& b, const ConvolutionShape& shape,
                               float factor, Bias bias)
    : build_(b),
      out_(shape.out),
      convolution_(convolution_of_halves(w, b, both_halves(shape), factor, bias)) {}

Tensor GluConvolution::forward(const Tensor& x, const Tensor& start_loc, const Tensor& out_starts,
                               int64_t out_rows) const {
  const Tensor halves = convolution_.forward(x, start_loc, out_starts, out_rows);
  const Tensor out = build_.ctx.make({out_rows, out_});
  ops::gated_activation(build_.ctx, {halves.columns(out_, 2 * out_), halves.columns(0, out_),
                                     Activation::kSigmoid, out});
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
