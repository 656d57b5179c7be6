#include "models/sides/picture_encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/config/vision_config.h"

namespace tandem {
namespace {

using nlohmann::json;

std::vector<int> read_counts(const ConfigReader& in, const char* key, std::vector<int> otherwise) {
  const json* value = in.find(key);
  if (value == nullptr) return otherwise;
  const auto valid = [](const json& n) {
    return n.is_number_integer() && n >= 1 && n <= ConfigReader::kMaxCount;
  };
  if (!value->is_array() || value->empty() || !std::all_of(value->begin(), value->end(), valid))
    in.fail(key, "is " + in.show(*value) + ", expected a list of numbers, one for each stage");
  return value->get<std::vector<int>>();
}

// As HuggingFace's: of the picture that a stage sees, whose layers have a table of biases by the
// configured window.
void check_window(const ConfigReader& in, const PictureEncoderConfig& c) {
  for (const PictureEncoderConfig::Stage& stage : c.stages)
    if (std::min(stage.height, stage.width) < c.window)
      in.fail("window_size", "is " + std::to_string(c.window) + ", larger than a stage of " +
                                 std::to_string(stage.height) + " x " +
                                 std::to_string(stage.width) + " points");
}

std::vector<PictureEncoderConfig::Stage> read_stages(const ConfigReader& in,
                                                     const ImagePatches& patches) {
  constexpr int kWidth = ConfigReader::kMaxWidth;
  constexpr int kMostStages = 16;
  const std::vector<int> depths = read_counts(in, "depths", {2, 2, 6, 2});
  const char* const heads_key =
      in.find("num_attention_heads") ? "num_attention_heads" : "num_heads";
  const std::vector<int> heads = read_counts(in, heads_key, {3, 6, 12, 24});
  if (depths.size() > heads.size() || depths.size() > kMostStages)
    in.fail("depths", "has " + std::to_string(depths.size()) + " stages, " + heads_key + " has " +
                          std::to_string(heads.size()));
  const auto ratio = double{in.positive("mlp_ratio", 4.0f)};
  PictureEncoderConfig::Stage stage{
      size_or(in, "embed_dim", kWidth, 96), 0, 0, 0, patches.rows(), patches.columns()};
  std::vector<PictureEncoderConfig::Stage> out;
  for (size_t i = 0; i < depths.size(); ++i) {
    stage.layers = depths[i];
    stage.heads = heads[i];
    const double ffn = ratio * stage.d_model;
    if (stage.d_model > kWidth || ffn < 1 || ffn > kWidth)
      in.fail("embed_dim", "and mlp_ratio make layers too large or too small");
    stage.ffn_dim = static_cast<int>(ffn);
    if (stage.d_model % stage.heads != 0)
      in.fail(heads_key, "has " + std::to_string(stage.heads) +
                             ", which does not divide the stage's features (" +
                             std::to_string(stage.d_model) + ")");
    out.push_back(stage);
    stage.d_model *= 2;
    stage.height = (stage.height + 1) / 2;
    stage.width = (stage.width + 1) / 2;
  }
  return out;
}

// Every second layer's windows are shifted by half, where there are several.
LayerOptions layer_options(const PictureEncoderConfig& c, const PictureEncoderConfig::Stage& stage,
                           int layer) {
  LayerOptions out;
  out.norms = NormPlace::kPre;
  out.d_model = stage.d_model;
  out.eps = c.eps;
  out.self_attention = AttentionOptions::scaled(stage.heads, stage.d_model / stage.heads);
  // The last one always has one.
  out.self_attention.bias = c.qkv_bias ? Bias::kRequired : Bias::kOptional;
  out.self_attention.names = {"self.query", "self.key", "self.value", "output.dense"};
  const bool several = std::min(stage.height, stage.width) > c.window;
  const int shift = several && layer % 2 == 1 ? c.window / 2 : 0;
  out.picture_attention = PictureAttentionOptions{{stage.height, stage.width, c.window, shift},
                                                  "self.relative_position_bias_table"};
  out.feed_forward = {stage.ffn_dim, c.activation};
  out.names.self_attention = "attention";
  out.names.self_norm = "layernorm_before";
  out.names.fc1 = "intermediate.dense";
  out.names.fc2 = "output.dense";
  out.names.final_norm = "layernorm_after";
  return out;
}

// Which rows of `pictures` pictures are merged, square by square: left above, left below, right
// above, right below. -1: beside the picture.
std::vector<int32_t> squares(int height, int width, int64_t pictures) {
  std::vector<int32_t> out;
  const auto row = [&](int64_t picture, int y, int x) {
    const bool there = y < height && x < width;
    return there ? static_cast<int32_t>((picture * height + y) * width + x) : -1;
  };
  for (int64_t picture = 0; picture < pictures; ++picture)
    for (int y = 0; y < height; y += 2)
      for (int x = 0; x < width; x += 2)
        for (const int right : {0, 1})
          for (const int below : {0, 1}) out.push_back(row(picture, y + below, x + right));
  return out;
}

}  // namespace

int64_t PictureEncoderConfig::layers() const {
  int64_t out = 0;
  for (const Stage& stage : stages) out += stage.layers;
  return out;
}

int64_t PictureEncoderConfig::scratch_values() const {
  int64_t most = patches.count() * (patches.frame_width() + stages.front().d_model);
  for (const Stage& stage : stages)
    most = std::max(most, stage.points() * (stage.ffn_dim + 6 * int64_t{stage.d_model}));
  return (most - 1) / stages.back().points() + 1;
}

PictureEncoderConfig read_picture_encoder(const ConfigReader& in) {
  PictureEncoderConfig out;
  out.patches = read_patches(in, 224, 4);
  out.patches.filled_up = true;
  out.stages = read_stages(in, out.patches);
  out.window = size_or(in, "window_size", PictureWindows::kMostWindow, 7);
  check_window(in, out);
  out.activation = in.activation("hidden_act", "gelu");
  out.qkv_bias = in.flag("qkv_bias", true);
  out.eps = in.positive("layer_norm_eps", 1e-5f);
  need_flag(in, "use_absolute_embeddings", false, "HuggingFace's class cannot add them either");
  return out;
}

PictureEncoder::Merging::Merging(const Weights& w, const Build& b,
                                 const PictureEncoderConfig::Stage& stage)
    : build_(b),
      stage_(stage),
      norm_(w / "norm", b, 4 * int64_t{stage.d_model}),
      part_(shard_range(4 * int64_t{stage.d_model}, b.comm.rank(), b.comm.size())),
      reduction_(w / "reduction", b, 4 * int64_t{stage.d_model}, 2 * int64_t{stage.d_model}, part_,
                 Bias::kNone) {}

Tensor PictureEncoder::Merging::forward(const Tensor& x) const {
  const std::vector<int32_t> rows =
      squares(stage_.height, stage_.width, x.dim(0) / stage_.points());
  const Tensor of_rows = step_list(build_.ctx, rows),
               out = build_.ctx.make({std::ssize(rows), x.dim(1)});
  ops::embedding(build_.ctx, {of_rows, of_rows, x, {}, 1.0f, 0, 0, out});
  const Tensor normed = norm_.forward(out.reshape({std::ssize(rows) / 4, 4 * x.dim(1)}));
  return reduction_.forward(normed.columns(part_.begin, part_.end));
}

PictureEncoder::PictureEncoder(const Weights& w, const Build& b, const PictureEncoderConfig& c)
    : ctx_(b.ctx),
      projection_(w / "embeddings" / "patch_embeddings" / "projection", b, c.stages.front().d_model,
                  c.patches),
      norm_(w / "embeddings" / "norm", b, c.stages.front().d_model) {
  (w / "embeddings").find_any("mask_token");
  const Weights scopes = w / "encoder" / "layers";
  const Build of_pictures = b.without_adapters();  // rows of a stage are no positions
  for (size_t i = 0; i < c.stages.size(); ++i) {
    const PictureEncoderConfig::Stage& stage = c.stages[i];
    const Weights scope = scopes / static_cast<int>(i);
    Stage made;
    for (int layer = 0; layer < stage.layers; ++layer) {
      const Weights of_layer = scope / "blocks" / layer;
      (of_layer / "attention" / "self").find_any("relative_position_index");
      made.layers.emplace_back(of_layer, of_pictures, layer_options(c, stage, layer));
    }
    if (i + 1 < c.stages.size()) made.merging.emplace(scope / "downsample", of_pictures, stage);
    stages_.push_back(std::move(made));
  }
}

Tensor PictureEncoder::forward(const StepTensors& in) const {
  Tensor x = norm_.forward(projection_.forward(in.encoder_frames));
  for (const Stage& stage : stages_) {
    Residual state{x};
    for (const EncoderLayer& layer : stage.layers) state = layer.forward(std::move(state), in);
    x = state.sum;
    ops::add_rows(ctx_, {x, state.update, x});
    if (stage.merging) x = stage.merging->forward(x);
  }
  return x;
}

}  // namespace tandem
