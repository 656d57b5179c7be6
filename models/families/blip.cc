// BLIP captions (Li et al. 2022; HuggingFace BlipForConditionalGeneration): a vision transformer,
// and BERT as a decoder, which generates by itself, whatever the model's own settings are.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "models/blocks/pictures/patch_embeddings.h"
#include "models/blocks/split_weights.h"
#include "models/config/generation_config.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"

namespace tandem {
namespace blip {

struct Sides {
  explicit Sides(const ConfigReader& in)
      : vision(read_vision(part_or_empty(in, "vision_config"), {384, 1e-5f})),
        decoder(read_decoder_side(part_or_empty(in, "text_config"), {"blip_text_model"})) {
    encoder = {vision.d_model, vision.layers, vision.heads, vision.ffn_dim, vision.activation};
    decoder.states_width = vision.d_model;  // HuggingFace's class has no other
  }
  VisionConfig vision;
  SideSizes encoder;
  DecoderSide decoder;
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.encoder, sides.decoder, c);
}

// The decoder's settings, with the tokens that HuggingFace's generate() of this class passes.
void change_generation(const ConfigReader& in, nlohmann::json& settings) {
  const ConfigReader text = part_or_empty(in, "text_config");
  settings = generation_of_config(text.raw());
  const auto set = [&](const char* setting, const char* key, int otherwise) {
    const nlohmann::json* value = text.find(key);
    settings[setting] = value != nullptr ? *value : nlohmann::json(otherwise);
  };
  set("bos_token_id", "bos_token_id", 30522);
  set("decoder_start_token_id", "bos_token_id", 30522);
  set("eos_token_id", "sep_token_id", 102);
  set("pad_token_id", "pad_token_id", 0);
}

ModelLimits limits(const ModelConfig& c) {
  const Sides sides(c.reader());
  const ImagePatches& patches = sides.vision.patches;
  ModelLimits out = limits_of_sides(sides.encoder, sides.decoder);
  out.frames = FrameLimits{patches.frame_width(), [](int64_t n) { return n + 1; }, patches};
  out.encoder_positions = static_cast<int>(patches.count() + 1);
  out.scratch_values_per_token += patches.frame_width();
  return out;
}

SideOptions encoder_options(const Sides& sides) {
  SideOptions out = options_of(sides.encoder, NormPlace::kPre, sides.vision.eps);
  out.layers = "encoder.layers";
  out.final_norm = "post_layernorm";
  out.layer.self_attention.names = {"q", "k", "v", "projection"};
  LayerOptions::Names& names = out.layer.names;
  names.self_norm = "layer_norm1";
  names.fc1 = "mlp.fc1";
  names.fc2 = "mlp.fc2";
  names.final_norm = "layer_norm2";
  return out;
}

class CaptionModel final : public CompositeModel {
 public:
  CaptionModel(const ModelConfig& c, const Build& b, const Weights& root, const Sides& sides)
      : CompositeModel(c, b, root, sides.encoder, encoder_options(sides), {}, sides.decoder,
                       {"vision_model", "text_decoder"}) {
    if (b.encoder_layers.has_first())
      patches_.emplace(
          root / "vision_model" / "embeddings", b, c.d_model, sides.vision.patches,
          PatchEmbeddings::Names{{"class_embedding"}, "patch_embedding", "position_embedding"});
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    return patches_->forward(in.encoder_frames, in.encoder_positions);
  }

 private:
  std::optional<PatchEmbeddings> patches_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  SplitWeights source(root.source());
  return std::make_unique<CaptionModel>(c, b, Weights(source, root.scope()), Sides(c.reader()));
}

}  // namespace blip

ModelFamily blip_family() {
  using namespace blip;
  return {.model_type = "blip",
          .architectures = {"BlipForConditionalGeneration"},
          .base = "blip",
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 30522, .pad = 0, .eos = 102, .decoder_start = 30522},
          .read_config = read_config,
          .change_generation = change_generation,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
