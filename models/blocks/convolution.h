// Convolutions over the frames of an encoder: windows of rows times a weight; and a norm over all
// rows of a sequence.
#pragma once

#include "kernels/ops.h"
#include "parallel/layers/layers.h"

namespace tandem {

struct ConvolutionShape {
  int64_t in = 0, out = 0;  // features
  int width = 1;            // rows of a window
  int stride = 1;
  int padding = 0;      // rows of zeros before the first and behind the last
  bool causal = false;  // before the first only
};

// Rows of a convolution's result.
struct ConvolvedRows {
  Tensor starts;  // indptr
  int64_t count;
};
// From the indptr of its input. Waits for a device.
ConvolvedRows convolved_rows(Context& ctx, const Tensor& start_loc, const ConvolutionShape& shape);

// y = act(conv1d(x)), each sequence by itself. All ranks compute all of it, because it is small
// beside the following layers. With int8 or int4 layers it computes in bf16.
class Convolution {
 public:
  Convolution(const Weights& w, const Build& b, const ConvolutionShape& shape,
              Activation activation, Bias bias = Bias::kRequired);
  // x [rows, in] of f32 or the activations' type; indptr [sequences + 1] of x and of the result →
  // [rows of out_starts, out].
  Tensor forward(const Tensor& x, const Tensor& start_loc, const Tensor& out_starts,
                 int64_t out_rows) const;
  using Rows = ConvolvedRows;
  Rows rows_behind(const Tensor& start_loc) const {
    return convolved_rows(build_.ctx, start_loc, shape_);
  }
  // The rows of the result of `rows` rows; 0 if they are fewer than a window.
  static int64_t rows_of(int64_t rows, const ConvolutionShape& shape) {
    const int64_t behind_first = rows + (shape.causal ? 1 : 2) * shape.padding - shape.width;
    return behind_first < 0 ? 0 : behind_first / shape.stride + 1;
  }

 private:
  Build build_;
  ConvolutionShape shape_;
  PackedWeight weight_;
  Tensor bias_;
  Activation activation_;
};

// y = a * sigmoid(b), where a and b are the halves of conv1d(x)'s features: torch's glu.
class GluConvolution {
 public:
  // shape.out: of y. `factor`: y is multiplied by it, as a part of the weights.
  GluConvolution(const Weights& w, const Build& b, const ConvolutionShape& shape,
                 float factor = 1.0f, Bias bias = Bias::kRequired);
  // As Convolution's.
  Tensor forward(const Tensor& x, const Tensor& start_loc, const Tensor& out_starts,
                 int64_t out_rows) const;
  Convolution::Rows rows_behind(const Tensor& start_loc) const {
    return convolution_.rows_behind(start_loc);
  }

 private:
  Build build_;
  int64_t out_;
  Convolution convolution_;
};

// A group norm of one group, in place: y = (x - mean) / sqrt(var + eps) * weight + bias. Mean and
// variance are over all values of a sequence.
class SequenceNorm {
 public:
  SequenceNorm(const Weights& w, const Build& b, int64_t features, float eps);
  void norm(const Tensor& x, const Tensor& start_loc) const;

 private:
  Build build_;
  Tensor weight_, bias_;
  float eps_;
};

}  // namespace tandem
