// Convolutions over pictures, whose rows are points, row by row.
#pragma once

#include <cstdint>

#include "models/blocks/pictures/patch_embeddings.h"
#include "parallel/layers/layers.h"

namespace tandem {

// Each feature by itself, in square windows with zeros beside the picture. Whole on every rank.
class PictureConv {
 public:
  // weight [d, 1, size, size], size odd, and bias [d].
  PictureConv(const Weights& w, const Build& b, int64_t d, int size, int height, int width);
  Tensor forward(const Tensor& x) const;  // [pictures * height * width, d], as is the result

 private:
  Build build_;
  int size_, height_, width_;
  Tensor weight_, bias_;
};

// Where the windows of a convolution lie that makes a smaller picture.
struct ConvSteps {
  int height = 0, width = 0;  // of the picture that it reads, in points
  int size = 1, stride = 1, padding = 0;
  int rows() const { return (height + 2 * padding - size) / stride + 1; }
  int columns() const { return (width + 2 * padding - size) / stride + 1; }
};

// All features of each window's points.
class StridedConv {
 public:
  // weight [out, in, size, size] and bias [out].
  StridedConv(const Weights& w, const Build& b, int64_t in, int64_t out, const ConvSteps& steps);
  // [pictures * height * width, in], of f32 or the activations' type → [pictures * rows * columns,
  // out].
  Tensor forward(const Tensor& x) const;

 private:
  Build build_;
  ConvSteps steps_;
  PatchProjection projection_;
};

}  // namespace tandem
