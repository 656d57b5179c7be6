#include "models/blocks/pictures/picture_conv.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "models/step/step_tensors.h"

namespace tandem {
namespace {

// A kernel whose numbers are in the order of a window's points, and their features within.
class PointsFirst final : public WeightSource {
 public:
  PointsFirst(const Weights& w, int64_t in, int64_t out, int size)
      : weight_(w.get("weight", {out, in, size, size})),
        bias_(w.get("bias", {out})),
        where_(w.scope()) {
    const int64_t points = int64_t{size} * size;
    const auto element = weight_.bytes / static_cast<size_t>(out * in * points);
    auto bytes = std::make_shared<std::vector<std::byte>>(weight_.bytes);
    for (int64_t row = 0; row < out; ++row)
      for (int64_t c = 0; c < in; ++c)
        for (int64_t p = 0; p < points; ++p)
          std::memcpy(bytes->data() + static_cast<size_t>((row * points + p) * in + c) * element,
                      weight_.data + static_cast<size_t>((row * in + c) * points + p) * element,
                      element);
    weight_.data = bytes->data();
    weight_.keep_alive = std::move(bytes);
    weight_.shape = {out, points * in};
  }
  const HostTensor* find(const std::string& name) override {
    return name == "weight" ? &weight_ : name == "bias" ? &bias_ : nullptr;
  }
  std::string location() const override { return where_; }

 private:
  HostTensor weight_, bias_;
  std::string where_;
};

PatchProjection projection_of(const Weights& w, const Build& b, int64_t in, int64_t out,
                              const ConvSteps& s) {
  PointsFirst kernel(w, in, out, s.size);
  return {Weights(kernel), b, out, in * s.size * s.size};
}

// The rows of the points of each window; -1: beside the picture.
std::vector<int32_t> points_of_windows(const ConvSteps& s, int64_t pictures) {
  std::vector<int32_t> out;
  for (int64_t picture = 0; picture < pictures; ++picture)
    for (int64_t row = 0; row < s.rows(); ++row)
      for (int64_t column = 0; column < s.columns(); ++column)
        for (int64_t p = 0; p < int64_t{s.size} * s.size; ++p) {
          const int64_t y = row * s.stride - s.padding + p / s.size,
                        x = column * s.stride - s.padding + p % s.size;
          const bool there = y >= 0 && y < s.height && x >= 0 && x < s.width;
          out.push_back(there ? static_cast<int32_t>((picture * s.height + y) * s.width + x) : -1);
        }
  return out;
}

}  // namespace

PictureConv::PictureConv(const Weights& w, const Build& b, int64_t d, int size, int height,
                         int width)
    : build_(b), size_(size), height_(height), width_(width) {
  const int64_t points = int64_t{size} * size;
  const Tensor kernel = to_float(w.get("weight", {d, 1, size, size})),
               turned({points, d}, DType::kF32);
  for (int64_t c = 0; c < d; ++c)
    for (int64_t p = 0; p < points; ++p)
      turned.row<float>(p)[c] = kernel.data<float>()[c * points + p];
  weight_ = b.ctx.resident(turned);
  bias_ = b.ctx.resident(to_float(w.get("bias", {d})));
}

Tensor PictureConv::forward(const Tensor& x) const {
  const Tensor out = build_.ctx.make({x.dim(0), x.dim(1)});
  ops::picture_conv(build_.ctx, {x, height_, width_, size_, weight_, bias_, out});
  return out;
}

StridedConv::StridedConv(const Weights& w, const Build& b, int64_t in, int64_t out,
                         const ConvSteps& steps)
    : build_(b), steps_(steps), projection_(projection_of(w, b, in, out, steps)) {}

Tensor StridedConv::forward(const Tensor& x) const {
  const int64_t points = int64_t{steps_.size} * steps_.size;
  const std::vector<int32_t> rows =
      points_of_windows(steps_, x.dim(0) / (int64_t{steps_.height} * steps_.width));
  const Tensor of_rows = step_list(build_.ctx, rows),
               windows = build_.ctx.make({std::ssize(rows), x.dim(1)});
  ops::embedding(build_.ctx, {of_rows, of_rows, x, {}, 1.0f, 0, 0, windows});
  return projection_.forward(windows.reshape({std::ssize(rows) / points, points * x.dim(1)}));
}

}  // namespace tandem
