// VisionEncoderDecoder (HuggingFace VisionEncoderDecoderModel), as TrOCR (Li et al. 2021) and
// captioners have it: a ViT or DeiT encoder, which reads the patches of an image, and a decoder of
// text. Sides of sizes of their own.
#include <optional>
#include <string>
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/blocks/patch_embeddings.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"

namespace tandem {
namespace {

struct Encoder : SideSizes {
  VisionConfig vision;
  bool distilled = false;  // DeiT's second token
};

Encoder read_encoder(const ConfigReader& in) {
  Encoder out;
  out.distilled = side_type(in, {"vit", "deit"}) == "deit";
  out.vision = read_vision(in);
  const VisionConfig& v = out.vision;
  static_cast<SideSizes&>(out) = {v.d_model, v.layers, v.heads, v.ffn_dim, v.activation};
  return out;
}

// Keys of config.json that ModelConfig does not have.
struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder(part_of(in, "encoder"))),
        decoder(read_decoder_side(part_of(in, "decoder"), {"bert", "camembert", "gpt2", "roberta",
                                                           "trocr", "xlm-roberta"})) {
    check_sides(part_of(in, "decoder"), encoder, decoder);
  }
  Encoder encoder;
  DecoderSide decoder;
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.encoder, sides.decoder, c);
}

ModelLimits limits(const ModelConfig& c) {
  const auto [encoder, decoder] = Sides(c.reader());
  const ImagePatches& patches = encoder.vision.patches;
  ModelLimits out = limits_of_sides(encoder, decoder);
  out.frames = FrameLimits{patches.frame_width(), [](int64_t n) { return n + 1; }, patches};
  if (encoder.distilled) out.frames->length_of = [](int64_t n) { return n + 2; };
  out.encoder_positions = static_cast<int>(out.frames->length_of(patches.count()));
  out.scratch_values_per_token += patches.frame_width();
  return out;
}

// Of files of transformers 5, and of those before.
SideOptions encoder_options(const Encoder& e, const Weights& w) {
  SideOptions out = options_of(e, NormPlace::kPre, e.vision.eps);
  const bool old = !(w / "layers" / 0 / "layernorm_before").find("weight", {e.d_model});
  AttentionOptions& attention = out.layer.self_attention;
  // The last one always has one.
  attention.bias = e.vision.qkv_bias ? Bias::kRequired : Bias::kOptional;
  LayerOptions::Names& names = out.layer.names;
  names.self_attention = "attention";
  names.self_norm = "layernorm_before";
  names.final_norm = "layernorm_after";
  attention.names.out = old ? "output.dense" : "o_proj";
  names.fc1 = old ? "intermediate.dense" : "mlp.fc1";
  names.fc2 = old ? "output.dense" : "mlp.fc2";
  if (old) {
    out.layers = "encoder.layer";
    attention.names.q = "attention.query";
    attention.names.k = "attention.key";
    attention.names.v = "attention.value";
  }
  out.final_norm = "layernorm";
  return out;
}

class VisionModel final : public CompositeModel {
 public:
  VisionModel(const ModelConfig& c, const Build& b, const Weights& root, const Sides& sides)
      : CompositeModel(c, b, root, sides.encoder, encoder_options(sides.encoder, root / "encoder"),
                       {}, sides.decoder) {
    if (!b.encoder_layers.has_first()) return;
    using Names = std::initializer_list<const char*>;
    patches_.emplace(
        root / "encoder" / "embeddings", b, c.d_model, sides.encoder.vision.patches,
        sides.encoder.distilled ? Names{"cls_token", "distillation_token"} : Names{"cls_token"});
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    return patches_->forward(in.encoder_frames, in.encoder_positions);
  }

 private:
  std::optional<PatchEmbeddings> patches_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights encoder = root / "encoder";
  (encoder / "pooler").skip();
  (encoder / "embeddings").find_any("mask_token");
  return std::make_unique<VisionModel>(c, b, root, Sides(c.reader()));
}

// Of the small checkpoints; the others have a tokenizer of another family.
TokenizerRule tokenizer() {
  TokenizerRule rule{"XLMRobertaTokenizer", "xlm-roberta", TokenizerRule::Kind::kUnigram};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTable, /*split_whitespace=*/true};
  rule.words.prefix_option = true;
  rule.pieces = fairseq_pieces([](const JsonView& config) { return tokens_and_mask({}, config); });
  rule.special_tokens = fairseq_tokens();
  rule.single = {"bos_token", "$A", "eos_token"};
  rule.pair = {"bos_token", "$A", "eos_token", "eos_token", "$B", "eos_token"};
  return rule;
}

}  // namespace

ModelFamily vision_encoder_decoder_family() {
  return {.model_type = "vision-encoder-decoder",
          .architectures = {"VisionEncoderDecoderModel"},
          .base = "vision_encoder_decoder",
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
