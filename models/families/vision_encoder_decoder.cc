// VisionEncoderDecoder (HuggingFace VisionEncoderDecoderModel), as TrOCR (Li et al. 2021),
// captioners, Donut (Kim et al. 2021) and Nougat (Blecher et al. 2023) have it: an encoder that
// reads the patches of an image (ViT, DeiT or Swin), and a decoder of text. Sides of sizes of their
// own.
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/blocks/pictures/patch_embeddings.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"
#include "models/sides/picture_encoder.h"

namespace tandem {
namespace vision_encoder_decoder {

struct Encoder : SideSizes {
  VisionConfig vision;
  bool distilled = false;                           // DeiT's second token
  std::optional<PictureEncoderConfig> stages = {};  // in place of `vision`

  const ImagePatches& patches() const { return stages ? stages->patches : vision.patches; }
};

Encoder read_encoder(const ConfigReader& in) {
  Encoder out;
  const std::string type = side_type(in, {"vit", "deit", "donut-swin"});
  if (type == "donut-swin") {
    out.stages = read_picture_encoder(in);
    const PictureEncoderConfig::Stage& last = out.stages->stages.back();
    static_cast<SideSizes&>(out) = {last.d_model, static_cast<int>(out.stages->layers()),
                                    last.heads, last.ffn_dim, out.stages->activation};
    return out;
  }
  out.distilled = type == "deit";
  out.vision = read_vision(in);
  const VisionConfig& v = out.vision;
  static_cast<SideSizes&>(out) = {v.d_model, v.layers, v.heads, v.ffn_dim, v.activation};
  return out;
}

// Keys of config.json that ModelConfig does not have.
struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder(part_of(in, "encoder"))),
        decoder(read_decoder_side(part_of(in, "decoder"), {"bert", "camembert", "gpt2", "mbart",
                                                           "roberta", "trocr", "xlm-roberta"})) {
    check_sides(part_of(in, "decoder"), encoder, decoder);
  }
  Encoder encoder;
  DecoderSide decoder;
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.encoder, sides.decoder, c);
}

std::function<int64_t(int64_t)> length_rule(const Encoder& encoder) {
  if (encoder.stages)
    return [whole = encoder.patches().count(), points = encoder.stages->stages.back().points()](
               int64_t n) { return n < whole ? 0 : points; };
  return [tokens = encoder.distilled ? 2 : 1](int64_t n) { return n + tokens; };
}

ModelLimits limits(const ModelConfig& c) {
  const auto [encoder, decoder] = Sides(c.reader());
  const ImagePatches& patches = encoder.patches();
  ModelLimits out = limits_of_sides(encoder, decoder);
  out.frames = FrameLimits{patches.frame_width(), length_rule(encoder), patches};
  out.encoder_positions = static_cast<int>(out.frames->length_of(patches.count()));
  if (encoder.stages)
    out.scratch_values_per_token += encoder.stages->scratch_values();
  else
    out.scratch_values_per_token += patches.frame_width();
  return out;
}

// Of files of transformers 5, and of those before.
SideOptions encoder_options(const Encoder& e, const Weights& w) {
  SideOptions out = options_of(e, NormPlace::kPre, e.vision.eps);
  if (e.stages) {
    out.num_layers = 0;  // PictureEncoder's are before them
    return out;
  }
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
    if (sides.encoder.stages) {
      stages_.emplace(root / "encoder", b.of_many_rows(), *sides.encoder.stages);
      return;
    }
    patches_.emplace(root / "encoder" / "embeddings", b, c.d_model, sides.encoder.vision.patches,
                     PatchEmbeddings::Names{sides.encoder.distilled
                                                ? std::vector{"cls_token", "distillation_token"}
                                                : std::vector{"cls_token"}});
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    if (stages_) return stages_->forward(in);
    return patches_->forward(in.encoder_frames, in.encoder_positions);
  }

 private:
  std::optional<PictureEncoder> stages_;
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

// The class has a pattern that it takes for a plain string, whatever tokenizer.json says.
void set_page_stages(const TokenizerRule::StageInput&, nlohmann::json& document) {
  const auto split = [](const char* text, const char* behavior) {
    return nlohmann::json{{"type", "Split"},
                          {"pattern", {{"String", text}}},
                          {"behavior", behavior},
                          {"invert", false}};
  };
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  nlohmann::json model = std::move(document["model"]);
  document["model"] = {{"type", "BPE"},
                       {"vocab", std::move(model["vocab"])},
                       {"merges", std::move(model["merges"])}};
  document["normalizer"] = {{"type", "NFKC"}};
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split("SPL1T-TH1S-Pl3A5E", "Removed"),
        {{"type", "Digits"}, {"individual_digits", true}},
        split(R"([\(\)\[\]\{\}]|([!\"#\$%\&'\*\+,\-\./:;<=>\?\\\^_`\|\~])\1*)", "Isolated"),
        split("\n", "Isolated"),
        bytes}}};
  document["decoder"] = {{"type", "ByteLevel"}};
}

// Nougat's.
TokenizerRule page_tokenizer() {
  TokenizerRule rule{"NougatTokenizer", "nougat"};
  rule.stages = set_page_stages;
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"}});
  rule.single = {"bos_token", "$A", "eos_token"};
  rule.pair = {"$A", "$B"};
  return rule;
}

// The class is many models: the processor's class says which.
AnswerForm answer_form(const ModelConfig& c, const std::string&) {
  const std::string processor = processor_class(c.directory);
  if (processor == "DonutProcessor") return {AnswerForm::Kind::kTags};
  if (processor == "NougatProcessor") return {AnswerForm::Kind::kMarkdown};
  return {};
}

}  // namespace vision_encoder_decoder

ModelFamily vision_encoder_decoder_family() {
  using namespace vision_encoder_decoder;
  return {.model_type = "vision-encoder-decoder",
          .architectures = {"VisionEncoderDecoderModel"},
          .base = "vision_encoder_decoder",
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .answer_form = answer_form,
          .tokenizers = {tokenizer(), page_tokenizer()},
          .make = make};
}

}  // namespace tandem
