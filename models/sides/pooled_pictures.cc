#include "models/sides/pooled_pictures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace tandem {
namespace {

// A matrix that the file has the other way round.
class TurnedMatrix final : public WeightSource {
 public:
  TurnedMatrix(const Weights& w, const char* name, int64_t in, int64_t out)
      : weight_(w.get(name, {in, out})), where_(w.scope()) {
    const auto size = weight_.bytes / static_cast<size_t>(in * out);
    auto bytes = std::make_shared<std::vector<std::byte>>(weight_.bytes);
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < out; ++o)
        std::memcpy(bytes->data() + static_cast<size_t>(o * in + i) * size,
                    weight_.data + static_cast<size_t>(i * out + o) * size, size);
    weight_.data = bytes->data();
    weight_.keep_alive = std::move(bytes);
    weight_.shape = {out, in};
  }
  const HostTensor* find(const std::string& name) override {
    return name == "weight" ? &weight_ : nullptr;
  }
  std::string location() const override { return where_; }

 private:
  HostTensor weight_;
  std::string where_;
};

RowParallelLinear product_of(const Weights& w, const Build& b, const PooledPicturesConfig& c,
                             const Range& part) {
  TurnedMatrix matrix(w, "mm_input_projection_weight", c.vision.d_model, c.d_model);
  return {Weights(matrix), b, c.vision.d_model, c.d_model, part, Bias::kNone};
}

LayerOptions layer_options(const VisionConfig& v) {
  LayerOptions out;
  out.norms = NormPlace::kPre;
  out.d_model = v.d_model;
  out.eps = v.eps;
  out.self_attention = AttentionOptions::scaled(v.heads, v.d_model / v.heads);
  out.feed_forward = {v.ffn_dim, v.activation};
  out.names.self_norm = "layer_norm1";
  out.names.fc1 = "mlp.fc1";
  out.names.fc2 = "mlp.fc2";
  out.names.final_norm = "layer_norm2";
  return out;
}

std::vector<EncoderLayer> layers_of(const Weights& w, const Build& b, const VisionConfig& v) {
  std::vector<EncoderLayer> out;
  for (int i = 0; i < v.layers; ++i) out.emplace_back(w / i, b, layer_options(v));
  return out;
}

// Published files have a name more than those that transformers 5.24 saves.
Weights tower_of(const Weights& w) {
  const Weights tower = w / "vision_tower";
  const std::string saved = (tower / "embeddings.patch_embedding.weight").scope();
  return tower.source().find(saved) != nullptr ? tower : tower / "vision_model";
}

Tensor position_table(const Weights& w, const Build& b, const VisionConfig& v) {
  const Shape shape{v.patches.count(), v.d_model};
  return b.ctx.resident(to_float((w / "position_embedding").get("weight", shape)).reshape(shape));
}

}  // namespace

int64_t PooledPicturesConfig::scratch_values() const {
  const int64_t patch = vision.patches.frame_width() + vision.ffn_dim + 8 * int64_t{vision.d_model};
  return (patch * vision.patches.count() - 1) / vectors() + 1;
}

std::optional<PooledPicturesConfig> read_pooled_pictures(const ConfigReader& in, int vectors,
                                                         int d_model) {
  VisionDefaults defaults;
  defaults.eps = 1e-6f;
  PooledPicturesConfig out{read_vision(in, defaults)};
  if (in.find("hidden_act") == nullptr)
    out.vision.activation = in.activation("hidden_act", "gelu_pytorch_tanh");
  out.d_model = d_model;
  if (out.vision.patches.rows() != out.vision.patches.columns())
    in.fail("image_size", "is not that of a square");
  const int side = static_cast<int>(std::sqrt(static_cast<double>(vectors)));
  out.square = out.vision.patches.rows() / std::max(side, 1);
  if (out.square < 1) return std::nullopt;
  return out;
}

PooledPictures::PooledPictures(const Weights& w, const Build& b, const PooledPicturesConfig& c)
    : build_(b),
      config_(c),
      heads_(b, c.vision.heads, c.vision.d_model / c.vision.heads),
      projection_(tower_of(w) / "embeddings.patch_embedding", b, c.vision.d_model,
                  c.vision.patches),
      positions_(position_table(tower_of(w) / "embeddings", b, c.vision)),
      layers_(layers_of(tower_of(w) / "encoder.layers", b.of_many_rows(), c.vision)),
      last_norm_(tower_of(w) / "post_layernorm", b, c.vision.d_model, c.vision.eps),
      pooled_norm_(w / "multi_modal_projector.mm_soft_emb_norm", b, c.vision.d_model, c.vision.eps,
                   NormKind::kRmsPlusOne),
      part_(shard_range(c.vision.d_model, b.comm.rank(), b.comm.size())),
      product_(product_of(w / "multi_modal_projector", b, c, part_)) {
  (tower_of(w) / "head").skip();
}

Tensor PooledPictures::forward(const StepTensors& in) const {
  const auto patches = static_cast<int32_t>(config_.vision.patches.count());
  const int64_t pictures = in.encoder_frames.dim(0) / patches;
  Context& ctx = build_.ctx;
  Residual state{projection_.forward(in.encoder_frames)};
  std::vector<int32_t> places;
  for (int64_t i = 0; i < pictures; ++i)
    for (int32_t p = 0; p < patches; ++p) places.push_back(p);
  state.update = ctx.make({state.sum.dim(0), state.sum.dim(1)});
  ops::embedding(ctx, {step_list(ctx, places), {}, positions_, {}, 1.0f, 0, 0, state.update});
  const std::vector<int32_t> lengths(static_cast<size_t>(pictures), patches);
  const StepTensors step = in.of_sequences(ctx, lengths, heads_.count(), heads_.head_dim);
  for (const EncoderLayer& layer : layers_) state = layer.forward(std::move(state), step);
  const Tensor normed = pooled_norm_.forward(pooled(tandem::normed(last_norm_, state)));
  return product_.forward(normed.columns(part_.begin, part_.end));
}

// The mean of each square of patches; those of no whole square are left out.
Tensor PooledPictures::pooled(const Tensor& x) const {
  const int columns = config_.vision.patches.columns(), side = config_.square;
  const int64_t of_picture = config_.vision.patches.count(), pictures = x.dim(0) / of_picture;
  std::vector<int32_t> places;
  for (int64_t picture = 0; picture < pictures; ++picture)
    for (int row = 0; row < config_.rows(); ++row)
      for (int column = 0; column < config_.columns(); ++column)
        for (int i = 0; i < side * side; ++i)
          places.push_back(static_cast<int32_t>(
              picture * of_picture + (row * side + i / side) * columns + column * side + i % side));
  const int64_t count = pictures * config_.vectors(), size = int64_t{side} * side;
  const std::vector<float> shares(places.size(), 1.0f / static_cast<float>(size));
  Context& ctx = build_.ctx;
  const Tensor out = ctx.make({count, x.dim(1)});
  ops::combine_rows(ctx, {x, step_list(ctx, places).reshape({count, size}),
                          step_values(ctx, shares).reshape({count, size}), out});
  return out;
}

}  // namespace tandem
