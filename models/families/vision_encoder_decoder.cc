// VisionEncoderDecoder (HuggingFace VisionEncoderDecoderModel) as TrOCR has it (Li et al. 2021): a
// ViT or DeiT encoder, which reads the patches of an image, and TrOCR's decoder, which is BART's
// with learned or sinusoidal positions. Sides of sizes of their own.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/blocks/patch_embeddings.h"
#include "models/blocks/seq2seq.h"
#include "models/config/side_config.h"
#include "models/config/vision_config.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr int kPositionOffset = 2;

struct Encoder : VisionConfig {
  bool distilled = false;  // DeiT's second token
};

struct Decoder {
  int d_model = 0, layers = 0, heads = 0, ffn_dim = 0;
  Activation activation = Activation::kGelu;
  int vocab_size = 0, max_positions = 0, pad = 0;
  bool scaled = false, learned_positions = true, embedding_norm = true, tied = true;
  bool own_width = false;  // keys and values are made of the encoder's states as they are
};

// The class that a side names.
std::string type_of(const ConfigReader& in, const char* otherwise, const char* known) {
  const std::string type = in.find("model_type") ? in.string("model_type") : otherwise;
  const std::string all = std::string(" ") + known + " ";
  if (all.find(" " + type + " ") == all.npos)
    throw not_supported(in.file() + ": model_type",
                        "is " + in.show(type) + ", which is not supported here: " + known);
  return type;
}

Encoder read_encoder(const ConfigReader& in) {
  const std::string type = type_of(in, "vit", "vit deit");
  return {read_vision(in), type == "deit"};
}

Decoder read_decoder(const ConfigReader& in, const Encoder& encoder) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  type_of(in, "bert", "trocr");
  Decoder out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 50265);
  out.d_model = in.size("d_model", kWidth, "hidden_size").value_or(1024);
  out.layers = in.size("decoder_layers", kCount, "num_hidden_layers").value_or(12);
  out.heads = in.size("decoder_attention_heads", kCount, "num_attention_heads").value_or(16);
  out.ffn_dim = size_or(in, "decoder_ffn_dim", kWidth, 4096);
  if (out.d_model % out.heads != 0) in.fail("decoder_attention_heads", "does not divide d_model");
  out.max_positions = size_or(in, "max_position_embeddings", kRows, 512);
  out.activation = in.activation("activation_function", "gelu");
  out.scaled = in.flag("scale_embedding", false);
  out.learned_positions = in.flag("use_learned_position_embeddings", true);
  out.embedding_norm = in.flag("layernorm_embedding", true);
  out.tied = in.flag("tie_word_embeddings", true);
  const nlohmann::json* pad = in.find("pad_token_id");
  out.pad = pad == nullptr || *pad == 0 ? static_cast<int>(pad == nullptr)
                                        : size_or(in, "pad_token_id", kRows, 1);
  const int kv_width = size_or(in, "cross_attention_hidden_size", kWidth, 0);
  out.own_width = kv_width > 0 || out.d_model == encoder.d_model;
  if (kv_width > 0 && kv_width != encoder.d_model)
    in.fail("cross_attention_hidden_size", "is " + std::to_string(kv_width) +
                                               ", the encoder's hidden_size " +
                                               std::to_string(encoder.d_model));
  return out;
}

// Keys of config.json that ModelConfig does not have.
struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder(part_of(in, "encoder"))),
        decoder(read_decoder(part_of(in, "decoder"), encoder)) {}
  Encoder encoder;
  Decoder decoder;
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  c.vocab_size = sides.decoder.vocab_size;
  c.d_model = sides.encoder.d_model;
  c.encoder_layers = sides.encoder.layers;
  c.decoder_layers = sides.decoder.layers;
  c.encoder_attention_heads = sides.encoder.heads;
  c.decoder_attention_heads = sides.decoder.heads;
  c.encoder_ffn_dim = sides.encoder.ffn_dim;
  c.decoder_ffn_dim = sides.decoder.ffn_dim;
  c.max_position_embeddings = sides.decoder.max_positions;
  c.activation = sides.decoder.activation;
  c.scale_embedding = sides.decoder.scaled;
  c.tie_word_embeddings = sides.decoder.tied;
}

ModelLimits limits(const ModelConfig& c) {
  const auto [encoder, decoder] = Sides(c.reader());
  const ImagePatches& patches = encoder.patches;
  ModelLimits out;
  out.frames = FrameLimits{patches.frame_width(), [](int64_t n) { return n + 1; }, patches};
  if (encoder.distilled) out.frames->length_of = [](int64_t n) { return n + 2; };
  out.encoder_positions = static_cast<int>(out.frames->length_of(patches.count()));
  out.decoder_positions = decoder.max_positions;
  if (!decoder.learned_positions) out.position_padding.decoder = decoder.pad;
  out.hidden_size = encoder.d_model;
  const int64_t ffn = std::max(encoder.ffn_dim, decoder.ffn_dim);
  const int64_t width = std::max(encoder.d_model, decoder.d_model);
  out.scratch_values_per_token = ffn + 6 * width + patches.frame_width();
  out.widest_linear = std::max(ffn, 3 * width);
  out.self_cache_values_per_token = int64_t{2} * decoder.layers * decoder.d_model;
  out.cross_cache_values_per_token = out.self_cache_values_per_token;
  out.cache_heads_per_token = int64_t{decoder.layers} * decoder.heads;
  return out;
}

template <class Side>
SideOptions options_of(const Side& s) {
  SideOptions out;
  out.num_layers = s.layers;
  out.layer.d_model = s.d_model;
  out.layer.self_attention = out.layer.cross_attention =
      AttentionOptions::scaled(s.heads, s.d_model / s.heads);
  out.layer.feed_forward = {s.ffn_dim, s.activation};
  return out;
}

// Of files of transformers 5, and of those before.
SideOptions encoder_options(const Encoder& e, const Weights& w) {
  SideOptions out = options_of(e);
  const bool old = !(w / "layers" / 0 / "layernorm_before").find("weight", {e.d_model});
  AttentionOptions& attention = out.layer.self_attention;
  attention.bias = e.qkv_bias ? Bias::kRequired : Bias::kOptional;  // the last one always has one
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
  out.layer.norms = NormPlace::kPre;
  out.layer.eps = e.eps;
  out.final_norm = "layernorm";
  return out;
}

Embeddings decoder_embeddings(const Decoder& d, const HostTensor& tokens, const Weights& w,
                              const Build& b) {
  const float scale = d.scaled ? std::sqrt(static_cast<float>(d.d_model)) : 1.0f;
  std::optional<Norm> norm;
  if (d.embedding_norm) norm.emplace(w / "layernorm_embedding", b, d.d_model);
  if (!d.learned_positions) (w / "embed_positions").skip();  // a remark of old files
  const Positions positions =
      d.learned_positions ? Positions::learned(w, b, d.max_positions, d.d_model, kPositionOffset)
                          : Positions::fairseq_sinusoidal(b, d.max_positions, d.d_model, d.pad);
  return {VocabParallelEmbedding(tokens, b, scale), positions, std::move(norm)};
}

class VisionModel final : public Seq2Seq {
 public:
  VisionModel(const ModelConfig& c, const Build& b, const Sides& sides, Parts parts,
              const Weights& root, const Weights& decoder, const SideOptions& decoder_side)
      : Seq2Seq(c, b, std::move(parts), root / "encoder",
                encoder_options(sides.encoder, root / "encoder"), decoder, decoder_side),
        patches_(sides.encoder.distilled
                     ? PatchEmbeddings(root / "encoder" / "embeddings", b, c.d_model,
                                       sides.encoder.patches, {"cls_token", "distillation_token"})
                     : PatchEmbeddings(root / "encoder" / "embeddings", b, c.d_model,
                                       sides.encoder.patches, {"cls_token"})),
        part_(shard_range(c.d_model, b.comm.rank(), b.comm.size())) {
    if (!sides.decoder.own_width)
      projection_.emplace(root / "enc_to_dec_proj", b.of_many_rows(), c.d_model,
                          sides.decoder.d_model, part_);
  }
  void write_cross_kv(const StepTensors& in, const Tensor& states, KvCache& cache) override {
    Seq2Seq::write_cross_kv(
        in, projection_ ? projection_->forward(states.columns(part_.begin, part_.end)) : states,
        cache);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    return patches_.forward(in.encoder_frames, in.encoder_positions);
  }

 private:
  PatchEmbeddings patches_;
  Range part_;
  std::optional<RowParallelLinear> projection_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Sides sides(c.reader());
  const Decoder& d = sides.decoder;
  const Weights encoder = root / "encoder", language = root / "decoder";
  const Weights decoder = language / "model" / "decoder";
  (encoder / "pooler").skip();
  (encoder / "embeddings").find_any("mask_token");
  decoder.find_any("version");
  const Shape shape{d.vocab_size, d.d_model};
  const Weights tokens = decoder / "embed_tokens", projection = language / "output_projection";
  auto table = tokens.find("weight", shape), head = projection.find("weight", shape);
  if (!table) table = d.tied && head ? head : tokens.get("weight", shape);
  if (!head) head = d.tied ? table : projection.get("weight", shape);
  SideOptions side = options_of(d);
  if (d.own_width) side.layer.cross_attention.kv_width = sides.encoder.d_model;
  return std::make_unique<VisionModel>(
      c, b, sides,
      Seq2Seq::Parts{std::nullopt, decoder_embeddings(d, *table, decoder, b),
                     ParallelLMHead(*head, {}, b)},
      root, decoder, side);
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
