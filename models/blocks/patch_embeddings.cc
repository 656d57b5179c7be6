#include "models/blocks/patch_embeddings.h"

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
  return {Weights(kernel), b, p.frame_width(), d_model, part};
}

}  // namespace

PatchEmbeddings::PatchEmbeddings(const Weights& w, const Build& b, int64_t d_model,
                                 const ImagePatches& patches,
                                 std::initializer_list<const char*> tokens)
    : build_(b),
      num_tokens_(static_cast<int64_t>(tokens.size())),
      num_patches_(patches.count()),
      part_(shard_range(patches.frame_width(), b.comm.rank(), b.comm.size())),
      projection_(
          make_projection(w / "patch_embeddings" / "projection", b, d_model, patches, part_)) {
  if (!b.ctx.on_cpu()) throw not_supported("--device", "images are read on CPUs only");
  const int64_t count = num_tokens_ + num_patches_;
  positions_ =
      to_float(w.get("position_embeddings", {1, count, d_model})).reshape({count, d_model});
  int64_t row = 0;
  for (const char* name : tokens) {
    const Tensor token = to_float(w.get(name, {1, 1, d_model}));
    float* to = positions_.row<float>(row++);
    for (int64_t i = 0; i < d_model; ++i) to[i] += token.data<float>()[i];
  }
}

Tensor PatchEmbeddings::forward(const Tensor& frames, const Tensor& positions) const {
  const int64_t rows = positions.dim(0);
  TANDEM_CHECK_EQ(rows % (num_tokens_ + num_patches_), 0);
  TANDEM_CHECK_EQ(rows / (num_tokens_ + num_patches_) * num_patches_, frames.dim(0));
  const Tensor patches = projection_.forward(frames.columns(part_.begin, part_.end));
  const Tensor patch_of = build_.ctx.make({rows}, DType::kI32);
  int32_t next = 0;
  for (int64_t i = 0; i < rows; ++i)
    patch_of.data<int32_t>()[i] = positions.data<int32_t>()[i] < num_tokens_ ? -1 : next++;
  const Tensor out = build_.ctx.make({rows, patches.dim(1)});
  ops::embedding(build_.ctx, {patch_of, positions, patches, positions_, 1.0f, 0, 0, out});
  return out;
}

}  // namespace tandem
