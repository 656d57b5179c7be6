// Canary (Puvvada et al. 2024; HuggingFace CanaryForConditionalGeneration) and Cohere's transcriber
// (CohereAsrForConditionalGeneration): a Fast Conformer over the spectrum of a whole clip, and a
// pre-norm decoder with a norm behind its embeddings. Prompts are tokens of languages and flags.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/seq2seq.h"
#include "models/config/side_config.h"
#include "models/family.h"
#include "models/sides/conformer_encoder.h"

namespace tandem {
namespace canary {

constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
              kCount = ConfigReader::kMaxCount;

bool is_canary(const std::string& model_type) { return model_type == "canary"; }

struct Decoder {
  int vocab_size = 0, d_model = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn_dim = 0,
      positions = 0;
  Activation activation = Activation::kRelu;
  bool bias = true;  // of attention
};

struct Sides {
  Sides(const ConfigReader& in, bool canary);
  explicit Sides(const ModelConfig& c) : Sides(c.reader(), is_canary(c.model_type)) {}
  ConformerConfig encoder;
  Decoder decoder;
  bool canary;  // sinusoidal positions, no projection of the encoder's states
};

// What HuggingFace puts in place of keys that are not there: where there is no object at all, and
// with Cohere's always.
nlohmann::json encoder_object(const ConfigReader& in, bool canary) {
  const nlohmann::json* own = in.find("encoder_config");
  if (own != nullptr && !own->is_object()) in.fail("encoder_config", "is not an object");
  if (canary && own != nullptr) return *own;
  nlohmann::json out = {{"num_hidden_layers", 32}, {"num_mel_bins", 128}, {"scale_input", false}};
  if (!canary) {
    out["hidden_size"] = 1280;
    out["num_hidden_layers"] = 48;
    out["intermediate_size"] = 5120;
  }
  if (own != nullptr) out.update(*own);
  return out;
}

Decoder read_decoder(const ConfigReader& in, bool canary) {
  Decoder out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 16384);
  out.d_model = size_or(in, "hidden_size", kWidth, 1024);
  out.layers = size_or(in, "num_hidden_layers", kCount, 8);
  out.heads = size_or(in, "num_attention_heads", kCount, 8);
  // Null is a number of its own; without the key Canary's is 8.
  const bool none = in.raw().contains("num_key_value_heads");
  out.kv_heads = size_or(in, "num_key_value_heads", kCount, canary && !none ? 8 : out.heads);
  if (out.heads % out.kv_heads != 0)
    in.fail("num_key_value_heads", "does not divide num_attention_heads");
  const bool head_dim = canary && !in.raw().contains("head_dim");
  if (!head_dim && !in.find("head_dim") && out.d_model % out.heads != 0)
    in.fail("num_attention_heads", "does not divide hidden_size");
  out.head_dim =
      size_or(in, "head_dim", kWidth, head_dim ? 128 : std::max(out.d_model / out.heads, 1));
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 4096);
  out.positions = size_or(in, "max_position_embeddings", kRows, 1024);
  out.activation = in.activation("hidden_act", "relu");
  out.bias = in.flag("attention_bias", true);
  return out;
}

Sides::Sides(const ConfigReader& in, bool canary)
    : decoder(read_decoder(canary ? part_or_empty(in, "decoder_config") : in, canary)),
      canary(canary) {
  const nlohmann::json object = encoder_object(in, canary);
  encoder = read_conformer(ConfigReader(in.file() + ": encoder_config", object));
  if (!canary) return;
  if (encoder.d_model != decoder.d_model)
    in.fail("decoder_config", "has a hidden_size of " + std::to_string(decoder.d_model) +
                                  ", encoder_config one of " + std::to_string(encoder.d_model));
  if (const int top = size_or(in, "vocab_size", kRows, 16384); top != decoder.vocab_size)
    in.fail("vocab_size", "is " + std::to_string(top) + ", but decoder_config has " +
                              std::to_string(decoder.vocab_size));
}

// NeMo's: sines, then cosines, over the root of the features. In floats, as there.
Tensor fixed_positions(const Decoder& d) {
  const int half = d.d_model / 2;
  const double longest = std::pow(10000.0, (d.d_model - 2.0) / d.d_model);
  const auto step = static_cast<float>(-std::log(longest) / std::max(half - 1, 1));
  const float root = std::sqrt(static_cast<float>(d.d_model));
  const Tensor out({d.positions, d.d_model}, DType::kF32);
  for (int64_t p = 0; p < d.positions; ++p)
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(p) * std::exp(step * static_cast<float>(i));
      out.row<float>(p)[i] = std::sin(angle) / root;
      out.row<float>(p)[half + i] = std::cos(angle) / root;
    }
  return out;
}

Tensor learned_positions(const Weights& w, const Decoder& d) {
  const Shape shape{d.positions, d.d_model};
  return to_float((w / "pos_emb").get("weight", shape)).reshape(shape);
}

class Transcriber final : public Seq2Seq {
 public:
  Transcriber(const ModelConfig& c, const Build& b, const Sides& sides, Parts parts,
              const Weights& encoder, const SideOptions& of_encoder, const Weights& decoder,
              const SideOptions& of_decoder)
      : Seq2Seq(c, b, std::move(parts), encoder, of_encoder, decoder, of_decoder),
        part_(shard_range(sides.encoder.d_model, b.comm.rank(), b.comm.size())) {
    if (b.encoder_layers.has_first()) encoder_.emplace(encoder, b.of_many_rows(), sides.encoder);
    if (!sides.canary)
      projection_.emplace(decoder / "proj", b.of_many_rows(), sides.encoder.d_model,
                          sides.decoder.d_model, part_);
  }

  void write_cross_kv(const StepTensors& in, const Tensor& states, KvCache& cache) override {
    Seq2Seq::write_cross_kv(
        in, projection_ ? projection_->forward(states.columns(part_.begin, part_.end)) : states,
        cache);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override { return encoder_->forward(in); }

 private:
  Range part_;  // of the encoder's features
  std::optional<ConformerEncoder> encoder_;
  std::optional<RowParallelLinear> projection_;
};

// ConformerEncoder's layers are before these.
SideOptions encoder_options(const ConformerConfig& c) {
  SideSizes none = c;
  none.layers = 0;
  return options_of(none, NormPlace::kPre, 1e-5f);
}

SideOptions decoder_options(const Decoder& d) {
  SideOptions out;
  out.num_layers = d.layers;
  out.final_norm = "norm";
  LayerOptions& layer = out.layer;
  layer.norms = NormPlace::kPre;
  layer.d_model = d.d_model;
  AttentionOptions& attention = layer.self_attention;
  attention = AttentionOptions::scaled(d.heads, d.head_dim);
  attention.kv_heads = d.kv_heads;
  attention.bias = d.bias ? Bias::kRequired : Bias::kNone;
  attention.names.out = "o_proj";
  layer.cross_attention = attention;
  layer.feed_forward = {d.ffn_dim, d.activation};
  layer.names.self_norm = "input_layernorm";
  layer.names.cross_norm = "post_attention_layernorm";
  layer.names.final_norm = "final_layernorm";
  layer.names.fc1 = "mlp.fc1";
  layer.names.fc2 = "mlp.fc2";
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Sides sides(c);
  (root / "preprocessor" / "featurizer").skip();  // the front end's tables, in NeMo's files
  const Decoder& d = sides.decoder;
  const Weights decoder = root / "model" / "decoder", head = root / "proj_out";
  const TiedTables tables(decoder / "embed_tokens", head, {d.vocab_size, d.d_model},
                          c.tie_word_embeddings);
  const Tensor bias = to_float(head.get("bias", {d.vocab_size}));
  return std::make_unique<Transcriber>(
      c, b, sides,
      Seq2Seq::Parts{{},
                     [&] {
                       const Tensor rows =
                           sides.canary ? fixed_positions(d) : learned_positions(decoder, d);
                       return Embeddings(VocabParallelEmbedding(tables.tokens, b, 1.0f),
                                         Positions::of_rows(b, rows, 0),
                                         Norm(decoder / "embedding_layernorm", b, d.d_model));
                     },
                     [&] { return ParallelLMHead(tables.head, bias, b); }},
      root / "model" / "encoder", encoder_options(sides.encoder), decoder, decoder_options(d));
}

void read_sides(const ConfigReader& in, bool canary, ModelConfig& c) {
  const Sides sides(in, canary);
  const Decoder& d = sides.decoder;
  c.vocab_size = d.vocab_size;
  c.d_model = d.d_model;
  c.head_dim = d.head_dim;
  c.encoder_layers = sides.encoder.layers;
  c.decoder_layers = d.layers;
  c.encoder_attention_heads = sides.encoder.heads;
  c.decoder_attention_heads = d.heads;
  c.encoder_ffn_dim = sides.encoder.ffn_dim;
  c.decoder_ffn_dim = d.ffn_dim;
  c.max_position_embeddings = d.positions;
  c.activation = d.activation;
  c.tie_word_embeddings = in.flag("tie_word_embeddings", canary);
}

ModelLimits limits(const ModelConfig& c) {
  const Sides sides(c);
  const ConformerConfig& encoder = sides.encoder;
  ModelLimits out = encoder_decoder_limits(c);
  out.encoder_positions = encoder.positions;
  out.hidden_size = encoder.d_model;
  out.frames =
      FrameLimits{encoder.bins, [encoder](int64_t frames) { return encoder.positions_of(frames); }};
  out.frames->sound = SoundInput::kSpectrum;
  out.widest_linear = std::max({out.widest_linear, int64_t{encoder.ffn_dim},
                                int64_t{3} * encoder.d_model, int64_t{3} * c.d_model});
  out.scratch_values_per_token = std::max(out.scratch_values_per_token, encoder.scratch_values());
  return out;
}

// A transcript with punctuation, without times and speakers. `target`: of the text.
std::vector<std::string> prompt_tokens(const char* target) {
  return {"<|startofcontext|>",
          "<|startoftranscript|>",
          "<|emo:undefined|>",
          "$source",
          target,
          "<|pnc|>",
          "<|noitn|>",
          "<|notimestamp|>",
          "<|nodiarize|>"};
}

std::vector<std::string> behind_space(std::vector<std::string> tokens) {
  tokens.insert(tokens.begin(), "\u2581");
  return tokens;
}

}  // namespace canary

ModelFamily canary_family() {
  using namespace canary;
  return {.model_type = "canary",
          .architectures = {"CanaryForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 4, .pad = 2, .eos = 3, .decoder_start = 7},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& c) { read_sides(in, /*canary=*/true, c); },
          .limits = limits,
          .speech_prompt = prompt_tokens("$target"),
          .make = make};
}

ModelFamily cohere_asr_family() {
  using namespace canary;
  return {.model_type = "cohere_asr",
          .architectures = {"CohereAsrForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 4, .pad = 2, .eos = 3},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& c) { read_sides(in, /*canary=*/false, c); },
          .limits = limits,
          .speech_prompt = behind_space(prompt_tokens("$source")),
          .make = make};
}

}  // namespace tandem
