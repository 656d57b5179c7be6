#include "models/blocks/pictures/patch_embeddings.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// A convolution whose steps are as wide as its kernel is a linear layer: the same numbers, as a
// matrix.
class FlatKernel : public WeightSource {
 public:
  FlatKernel(const Weights& w, const Shape& shape)
      : weight_(w.get("weight", shape)), bias_(w.get("bias", {shape[0]})), where_(w.scope()) {
    weight_.shape = {shape[0], shape[1] * shape[2] * shape[3]};
  }
  const HostTensor* find(const std::string& name) override {
    return name == "weight" ? &weight_ : name == "bias" ? &bias_ : nullptr;
  }
  std::string location() const override { return where_; }

 private:
  HostTensor weight_, bias_;
  std::string where_;
};

RowParallelLinear make_projection(const Weights& w, const Build& b, int64_t d_model,
                                  const ImagePatches& p, const Range& part) {
  FlatKernel kernel(w, {d_model, ImagePatches::kChannels, p.patch_height, p.patch_width});
  return {Weights(kernel), b.without_adapters(), p.frame_width(), d_model, part};
}

}  // namespace

PatchProjection::PatchProjection(const Weights& w, const Build& b, int64_t d_model,
                                 const ImagePatches& patches)
    : build_(b),
      part_(shard_range(patches.frame_width(), b.comm.rank(), b.comm.size())),
      linear_(make_projection(w, b, d_model, patches, part_)) {}

PatchProjection::PatchProjection(const Weights& w, const Build& b, int64_t d_model, int64_t values)
    : build_(b),
      part_(shard_range(values, b.comm.rank(), b.comm.size())),
      linear_(w, b.without_adapters(), values, d_model, part_) {}

// This rank's values, of the activations' type.
Tensor PatchProjection::part_of(const Tensor& frames) const {
  const Tensor part = frames.columns(part_.begin, part_.end);
  if (part.dtype() == build_.ctx.activations()) return part;
  const Tensor out = build_.ctx.make({part.dim(0), part.dim(1)}),
               starts = step_list(build_.ctx, {0, static_cast<int32_t>(part.dim(0))});
  ops::conv_windows(build_.ctx, {part, starts, starts, 1, 1, 0, out});
  return out;
}

PatchEmbeddings::PatchEmbeddings(const Weights& w, const Build& b, int64_t d_model,
                                 const ImagePatches& patches, const Names& names)
    : build_(b),
      num_tokens_(static_cast<int64_t>(names.tokens.size())),
      num_patches_(patches.count()),
      projection_(w / names.projection, b, d_model, patches) {
  const int64_t count = num_tokens_ + num_patches_;
  positions_ = to_float(w.get(names.positions, {1, count, d_model})).reshape({count, d_model});
  int64_t row = 0;
  for (const char* name : names.tokens) {
    const Tensor token = to_float(w.get(name, {1, 1, d_model}));
    float* to = positions_.row<float>(row++);
    for (int64_t i = 0; i < d_model; ++i) to[i] += token.data<float>()[i];
  }
  positions_ = b.ctx.resident(positions_);
}

Tensor PatchEmbeddings::forward(const Tensor& frames, const Tensor& positions) const {
  const int64_t rows = positions.dim(0), length = num_tokens_ + num_patches_;
  TANDEM_CHECK_EQ(rows % length, 0);
  TANDEM_CHECK_EQ(rows / length * num_patches_, frames.dim(0));
  const Tensor patches = projection_.forward(frames);
  std::vector<int32_t> patch_of;
  int32_t next = 0;
  for (int64_t i = 0; i < rows; ++i) patch_of.push_back(i % length < num_tokens_ ? -1 : next++);
  const Tensor out = build_.ctx.make({rows, patches.dim(1)});
  ops::embedding(build_.ctx, {step_list(build_.ctx, patch_of), positions, patches, positions_, 1.0f,
                              0, 0, out});
  return out;
}

}  // namespace tandem
