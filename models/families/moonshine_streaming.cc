// Moonshine Streaming (HuggingFace MoonshineStreamingForConditionalGeneration): frames of samples,
// normed each and compressed, causal convolutions, and layers that see a few positions; so that an
// encoder may follow live sound. It has no positions: the decoder adds them to its states.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sound_ops.h"
#include "models/blocks/changed_weights.h"
#include "models/blocks/convolution.h"
#include "models/blocks/seq2seq.h"
#include "models/config/part_rotation.h"
#include "models/config/side_config.h"
#include "models/family.h"

namespace tandem {
namespace moonshine_streaming {

constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
              kCount = ConfigReader::kMaxCount;
constexpr int kStepWidth = 5, kStride = 2;  // of both convolutions

struct Side {
  int d_model = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn_dim = 0;
  Activation activation = Activation::kSilu;
  bool bias = false;  // of attention
};

// Keys of config.json that ModelConfig does not have.
struct Sides {
  explicit Sides(const ConfigReader& in);
  Side encoder, decoder;
  int frame_samples = 0, positions = 0;
  std::vector<ops::Window> windows;  // of the encoder's layers
  PartRotation rotation;
};

Side read_side_of(const ConfigReader& in, const char* activation) {
  Side out;
  out.d_model = size_or(in, "hidden_size", kWidth, 320);
  out.layers = size_or(in, "num_hidden_layers", kCount, 6);
  out.heads = size_or(in, "num_attention_heads", kCount, 8);
  out.kv_heads =
      size_or(in, "num_key_value_heads", kCount, in.find("num_attention_heads") ? out.heads : 8);
  if (out.heads % out.kv_heads != 0)
    in.fail("num_key_value_heads", "does not divide num_attention_heads");
  if (!in.find("head_dim") && out.d_model % out.heads != 0)
    in.fail("num_attention_heads", "does not divide hidden_size");
  out.head_dim = size_or(in, "head_dim", kWidth, std::max(out.d_model / out.heads, 1));
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 1280);
  out.activation = in.activation("hidden_act", activation);
  out.bias = in.flag("attention_bias", false);
  return out;
}

// (tokens back, counting itself; the first distance ahead that is not seen)
std::vector<ops::Window> read_windows(const ConfigReader& in, int layers) {
  const char* key = "sliding_windows";
  nlohmann::json list = {{16, 4}, {16, 4}, {16, 0}, {16, 0}, {16, 4}, {16, 4}};
  if (const nlohmann::json* own = in.find(key)) list = *own;
  const auto valid = [](const nlohmann::json& n, int least) {
    return n.is_number_integer() && n >= least && n <= kRows;
  };
  if (!list.is_array() || std::ssize(list) < layers)
    in.fail(key, "must be a list of a pair for each layer");
  std::vector<ops::Window> out;
  for (int i = 0; i < layers; ++i) {
    const nlohmann::json& pair = list[static_cast<size_t>(i)];
    if (!pair.is_array() || pair.size() != 2 || !valid(pair[0], 1) || !valid(pair[1], 0))
      in.fail(key, "has " + in.show(pair) + ", expected two numbers, the first above 0");
    out.push_back({pair[0].get<int32_t>() - 1, std::max(pair[1].get<int32_t>() - 1, 0)});
  }
  return out;
}

Sides::Sides(const ConfigReader& in)
    : encoder(read_side_of(part_or_empty(in, "encoder_config"), "gelu")),
      decoder(read_side_of(in, "silu")),
      rotation(read_part_rotation(in, decoder.head_dim, 0.8, 1.0)) {
  const ConfigReader of_encoder = part_or_empty(in, "encoder_config");
  // HuggingFace's class runs no others.
  if (decoder.kv_heads != decoder.heads)
    throw not_supported(in.file() + ": num_key_value_heads",
                        "is " + std::to_string(decoder.kv_heads) + ", num_attention_heads " +
                            std::to_string(decoder.heads));
  const double samples =
      double{static_cast<double>(size_or(of_encoder, "sample_rate", kRows, 16000))} *
      double{of_encoder.positive("frame_ms", 5.0f)} / 1000;
  if (samples < 1 || samples > 100'000) of_encoder.fail("frame_ms", "makes frames of no samples");
  frame_samples = static_cast<int>(std::lrint(samples));
  positions = size_or(in, "max_position_embeddings", kRows, 4096);
  windows = read_windows(of_encoder, encoder.layers);
}

int64_t positions_of(int64_t frames) {
  for (int i = 0; i < 2; ++i) frames = (frames - 1) / kStride + 1;
  return frames;
}

ConvolutionShape step_of(int64_t in, int64_t out) {
  return {in, out, kStepWidth, kStride, kStepWidth - 1, /*causal=*/true};
}

// Of frames: each normed and compressed, multiplied, and shortened twice.
class Stem {
 public:
  Stem(const Weights& w, const Build& b, const Sides& sides)
      : build_(b),
        factor_(std::exp(values_of((w / "comp").get("log_k", {}))[0])),
        linear_(linear_of(w / "linear", b, sides)),
        first_(w / "conv1", b, step_of(sides.encoder.d_model, 2 * sides.encoder.d_model),
               Activation::kSilu),
        second_(w / "conv2", b, step_of(2 * sides.encoder.d_model, sides.encoder.d_model),
                Activation::kNone) {}

  Tensor forward(const StepTensors& in) const {
    const Tensor frames = build_.ctx.make({in.encoder_frames.dim(0), in.encoder_frames.dim(1)});
    ops::compress_frames(build_.ctx, {in.encoder_frames, factor_, 1e-6f, frames});
    Tensor rows = linear_.forward(frames, in.frame_start_loc, in.frame_start_loc, frames.dim(0));
    const Convolution::Rows half = first_.rows_behind(in.frame_start_loc);
    rows = first_.forward(rows, in.frame_start_loc, half.starts, half.count);
    return second_.forward(rows, half.starts, in.encoder_start_loc, in.encoder_positions.dim(0));
  }

 private:
  // A convolution over one row.
  static Convolution linear_of(const Weights& w, const Build& b, const Sides& sides) {
    const int64_t in = sides.frame_samples, out = sides.encoder.d_model;
    ChangedWeights changed(w);
    changed.put(w, "weight", {out, in, 1}, values_of(w.get("weight", {out, in})));
    return Convolution(changed.at(w), b, {in, out}, Activation::kSilu, Bias::kNone);
  }

  Build build_;
  float factor_;
  Convolution linear_, first_, second_;
};

class MoonshineStreaming final : public Seq2Seq {
 public:
  MoonshineStreaming(const ModelConfig& c, const Build& b, const Sides& sides, Parts parts,
                     const Weights& encoder, const SideOptions& of_encoder, const Weights& decoder,
                     const SideOptions& of_decoder)
      : Seq2Seq(c, b, std::move(parts), encoder, of_encoder, decoder, of_decoder),
        build_(b),
        part_(shard_range(sides.encoder.d_model, b.comm.rank(), b.comm.size())) {
    if (b.encoder_layers.has_first()) stem_.emplace(encoder / "embedder", b, sides);
    const int64_t width = sides.encoder.d_model;
    places_ = b.ctx.resident(to_float((decoder / "pos_emb").get("weight", {sides.positions, width}))
                                 .reshape({sides.positions, width}));
    if (width != sides.decoder.d_model)
      projection_.emplace(decoder / "proj", b.of_many_rows(), width, sides.decoder.d_model, part_,
                          Bias::kNone);
  }

  void write_cross_kv(const StepTensors& in, const Tensor& states, KvCache& cache) override {
    const Tensor placed = build_.ctx.make({states.dim(0), states.dim(1)});
    ops::embedding(build_.ctx, {in.encoder_positions, {}, places_, {}, 1.0f, 0, 0, placed});
    ops::add_rows(build_.ctx, {states, placed, placed});
    Seq2Seq::write_cross_kv(
        in, projection_ ? projection_->forward(placed.columns(part_.begin, part_.end)) : placed,
        cache);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override { return stem_->forward(in); }

 private:
  Build build_;
  Range part_;  // of the encoder's features
  std::optional<Stem> stem_;
  Tensor places_;
  std::optional<RowParallelLinear> projection_;
};

SideOptions side_options(const Side& s) {
  SideOptions out;
  out.num_layers = s.layers;
  out.layer.norms = NormPlace::kPre;
  out.layer.norm_kind = NormKind::kLayerNoBias;
  out.layer.d_model = s.d_model;
  AttentionOptions& attention = out.layer.self_attention;
  attention = AttentionOptions::scaled(s.heads, s.head_dim);
  attention.kv_heads = s.kv_heads;
  attention.bias = s.bias ? Bias::kOptional : Bias::kNone;
  attention.names.out = "o_proj";
  out.layer.feed_forward = {s.ffn_dim, s.activation};
  LayerOptions::Names& names = out.layer.names;
  names.self_norm = "input_layernorm";
  names.fc1 = "mlp.fc1";
  names.fc2 = "mlp.fc2";
  return out;
}

SideOptions encoder_options(const Sides& sides) {
  SideOptions out = side_options(sides.encoder);
  out.layer.names.final_norm = "post_attention_layernorm";
  out.final_norm = "final_norm";
  out.of_layer = [windows = sides.windows](int i, LayerOptions& layer) {
    layer.self_attention.window = windows[static_cast<size_t>(i)];
  };
  return out;
}

SideOptions decoder_options(const Sides& sides) {
  SideOptions out = side_options(sides.decoder);
  out.frequencies.push_back(rotary_frequencies(sides.rotation.dims, sides.rotation.theta));
  LayerOptions& layer = out.layer;
  layer.cross_attention = layer.self_attention;
  layer.self_attention.rotary = 0;
  layer.self_attention.rotary_interleaved = true;
  layer.names.cross_norm = "post_attention_layernorm";
  layer.names.final_norm = "final_layernorm";
  layer.feed_forward.gated = true;
  layer.names.fc1 = "mlp.gate";
  layer.names.gate = "mlp.value";
  out.final_norm = "norm";
  return out;
}

// The encoder's norms multiply by gamma + 1. The decoder's fc1 has both halves of a gated layer,
// the values first.
void change_weights(ChangedWeights& changed, const Weights& model, const Sides& sides) {
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const auto norm = [&](const Weights& w) {
    std::vector<float> gamma = values_of(w.get("gamma", {sides.encoder.d_model}));
    for (float& x : gamma) x += 1.0f;
    changed.put(w, "weight", {sides.encoder.d_model}, std::move(gamma));
  };
  norm(encoder / "final_norm");
  for (int i = 0; i < sides.encoder.layers; ++i)
    for (const char* name : {"input_layernorm", "post_attention_layernorm"})
      norm(encoder / "layers" / i / name);
  for (int i = 0; i < sides.decoder.layers; ++i) {
    const Weights mlp = decoder / "layers" / i / "mlp";
    split_halves(changed, mlp / "fc1", mlp / "value", mlp / "gate", sides.decoder.ffn_dim,
                 sides.decoder.d_model);
  }
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Sides sides(c.reader());
  const Weights model = root / "model";
  const TiedTables tables(model / "decoder" / "embed_tokens", root / "proj_out",
                          {c.vocab_size, c.d_model}, c.tie_word_embeddings);
  ChangedWeights changed(model);
  change_weights(changed, model, sides);
  return std::make_unique<MoonshineStreaming>(
      c, b, sides,
      Seq2Seq::Parts{{},
                     [&] {
                       return Embeddings(VocabParallelEmbedding(tables.tokens, b, 1.0f),
                                         Positions::none());
                     },
                     [&] { return ParallelLMHead(tables.head, {}, b); }},
      changed.at(model / "encoder"), encoder_options(sides), changed.at(model / "decoder"),
      decoder_options(sides));
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  c.vocab_size = size_or(in, "vocab_size", kRows, 32768);
  c.d_model = sides.decoder.d_model;
  c.head_dim = sides.decoder.head_dim;
  c.encoder_layers = sides.encoder.layers;
  c.decoder_layers = sides.decoder.layers;
  c.encoder_attention_heads = sides.encoder.heads;
  c.decoder_attention_heads = sides.decoder.heads;
  c.encoder_ffn_dim = sides.encoder.ffn_dim;
  c.decoder_ffn_dim = sides.decoder.ffn_dim;
  c.max_position_embeddings = sides.positions;
  c.activation = sides.decoder.activation;
  c.tie_word_embeddings = in.flag("tie_word_embeddings", false);
}

ModelLimits limits(const ModelConfig& c) {
  const Sides sides(c.reader());
  ModelLimits out = encoder_decoder_limits(c);
  const int64_t width = sides.encoder.d_model, heads = sides.encoder.heads * sides.encoder.head_dim;
  out.hidden_size = sides.encoder.d_model;
  out.frames = FrameLimits{sides.frame_samples, positions_of};
  out.frames->sound = SoundInput::kSamples;
  out.widest_linear =
      std::max({out.widest_linear, int64_t{2} * c.decoder_ffn_dim, 3 * std::max(width, heads)});
  // Frames of a position and what is made of them, with their windows.
  constexpr int64_t kFirst = kStride * kStride, kSecond = kStride;
  const int64_t stem = kFirst * (2 * sides.frame_samples + width) +
                       kSecond * (kStepWidth * width + 2 * width) + 2 * kStepWidth * width + width;
  out.scratch_values_per_token =
      std::max({out.scratch_values_per_token + c.decoder_ffn_dim,
                sides.encoder.ffn_dim + 6 * std::max(width, heads), stem});
  return out;
}

}  // namespace moonshine_streaming

ModelFamily moonshine_streaming_family() {
  using namespace moonshine_streaming;
  return {.model_type = "moonshine_streaming",
          .architectures = {"MoonshineStreamingForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 1, .pad = 0, .eos = 2},
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
