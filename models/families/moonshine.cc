// Moonshine (Jeffries et al. 2024; HuggingFace MoonshineForConditionalGeneration): three
// convolutions over the samples of a whole clip, a norm over all of it behind the first; pre-norm
// layers, rotary positions of a part of each head, a gate in the decoder's.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "models/blocks/changed_weights.h"
#include "models/blocks/convolution.h"
#include "models/blocks/seq2seq.h"
#include "models/config/part_rotation.h"
#include "models/family.h"

namespace tandem {
namespace moonshine {

// Of the convolutions: their windows and steps; features as multiples of d_model.
struct Step {
  int width, stride, in, out;
};
constexpr Step kSteps[] = {{127, 64, 0, 1}, {7, 3, 1, 2}, {3, 2, 2, 1}};

ConvolutionShape shape_of(const Step& step, int64_t d_model = 1) {
  return {step.in == 0 ? 1 : step.in * d_model, step.out * d_model, step.width, step.stride, 0};
}

int64_t positions_of(int64_t samples) {
  for (const Step& step : kSteps) samples = Convolution::rows_of(samples, shape_of(step));
  return samples;
}

// The longest clip that the authors' own programs take; HuggingFace knows no bound.
constexpr int64_t kMostSamples = 64 * 16000;
constexpr double kPart = 0.9;  // of a head that turns

class Moonshine final : public Seq2Seq {
 public:
  Moonshine(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
            const SideOptions& of_encoder, const Weights& decoder, const SideOptions& of_decoder)
      : Seq2Seq(c, b, std::move(parts), encoder, of_encoder, decoder, of_decoder) {
    if (b.encoder_layers.has_first()) stem_.emplace(encoder, b, c.d_model);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    const auto& [first_step, norm, second_step, third_step] = *stem_;
    const Convolution::Rows first = first_step.rows_behind(in.frame_start_loc);
    const Convolution::Rows second = second_step.rows_behind(first.starts);
    Tensor rows =
        first_step.forward(in.encoder_frames, in.frame_start_loc, first.starts, first.count);
    norm.norm(rows, first.starts);
    rows = second_step.forward(rows, first.starts, second.starts, second.count);
    return third_step.forward(rows, second.starts, in.encoder_start_loc,
                              in.encoder_positions.dim(0));
  }

 private:
  struct Stem {
    Stem(const Weights& w, const Build& b, int width)
        : first(w / "conv1", b, shape_of(kSteps[0], width), Activation::kTanh, Bias::kNone),
          norm(w / "groupnorm", b, width, 1e-5f),
          second(w / "conv2", b, shape_of(kSteps[1], width), Activation::kGelu),
          third(w / "conv3", b, shape_of(kSteps[2], width), Activation::kGelu) {}
    Convolution first;
    SequenceNorm norm;
    Convolution second, third;
  };
  std::optional<Stem> stem_;
};

SideOptions side_of(SideOptions side, const ConfigReader& in) {
  AttentionOptions& attention = side.layer.self_attention;
  const PartRotation rotation = read_part_rotation(in, attention.head_dim, kPart, kPart);
  side.frequencies.push_back(rotary_frequencies(rotation.dims, rotation.theta));
  attention.bias = in.flag("attention_bias", false) ? Bias::kOptional : Bias::kNone;
  attention.names.out = "o_proj";
  side.layer.cross_attention = attention;
  attention.rotary = 0;
  attention.rotary_interleaved = true;
  side.layer.norm_kind = NormKind::kLayerNoBias;
  side.layer.names.self_norm = "input_layernorm";
  side.layer.names.cross_norm = "post_attention_layernorm";
  side.layer.names.final_norm = "final_layernorm";
  side.layer.names.fc1 = "mlp.fc1";
  side.layer.names.fc2 = "mlp.fc2";
  return side;
}

SideOptions encoder_options(const ModelConfig& c) {
  SideOptions out = side_of(encoder_side(c, NormPlace::kPre), c.reader());
  out.layer.names.final_norm = "post_attention_layernorm";
  out.layer.feed_forward.activation = c.reader().activation("encoder_hidden_act", "gelu");
  out.final_norm = "layer_norm";
  return out;
}

SideOptions decoder_options(const ModelConfig& c) {
  SideOptions out = side_of(decoder_side(c, NormPlace::kPre), c.reader());
  out.layer.feed_forward.gated = true;
  out.layer.names.fc1 = "mlp.gate";
  out.layer.names.gate = "mlp.value";
  out.final_norm = "norm";
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = root / "model", decoder = model / "decoder";
  const Shape shape{c.vocab_size, c.d_model};
  const HostTensor tokens = (decoder / "embed_tokens").get("weight", shape);
  const Weights own = root / "proj_out";
  const HostTensor head =
      c.tie_word_embeddings ? own.find("weight", shape).value_or(tokens) : own.get("weight", shape);
  ChangedWeights changed(decoder);  // fc1 has both halves of a gated layer, the values first
  for (int i = 0; i < c.decoder_layers; ++i) {
    const Weights mlp = decoder / "layers" / i / "mlp";
    split_halves(changed, mlp / "fc1", mlp / "value", mlp / "gate", c.decoder_ffn_dim, c.d_model);
  }
  Seq2Seq::Parts parts{
      {},
      [&] { return Embeddings(VocabParallelEmbedding(tokens, b, 1.0f), Positions::none()); },
      [&] { return ParallelLMHead(head, {}, b); }};
  parts.head_name = "proj_out";
  return std::make_unique<Moonshine>(c, b, std::move(parts), model / "encoder", encoder_options(c),
                                     changed.at(decoder), decoder_options(c));
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  c.vocab_size = in.size("vocab_size", kRows).value_or(32768);
  c.d_model = in.size("hidden_size", kWidth).value_or(288);
  c.encoder_layers = in.size("encoder_num_hidden_layers", kCount).value_or(6);
  c.decoder_layers = in.size("decoder_num_hidden_layers", kCount, "num_hidden_layers").value_or(6);
  c.encoder_attention_heads = in.size("encoder_num_attention_heads", kCount).value_or(8);
  c.decoder_attention_heads =
      in.size("decoder_num_attention_heads", kCount, "num_attention_heads").value_or(8);
  c.encoder_ffn_dim = c.decoder_ffn_dim = in.size("intermediate_size", kWidth).value_or(1152);
  c.max_position_embeddings = in.size("max_position_embeddings", kRows).value_or(512);
  c.activation = in.activation(in.find("hidden_act") ? "hidden_act" : "decoder_hidden_act", "silu");
  c.tie_word_embeddings = in.flag("tie_word_embeddings", true);
  const int heads = c.encoder_attention_heads;
  if (c.d_model % heads != 0) in.fail("encoder_num_attention_heads", "does not divide hidden_size");
  // HuggingFace's class runs no others: both sides read one number.
  using Names = std::pair<const char*, const char*>;
  for (const auto& [key, alias] : {Names{"decoder_num_attention_heads", "num_attention_heads"},
                                   Names{"encoder_num_key_value_heads", nullptr},
                                   Names{"decoder_num_key_value_heads", "num_key_value_heads"}})
    if (const auto other = in.size(key, kCount, alias); other && *other != heads)
      throw not_supported(in.file() + ": " + key, "is " + std::to_string(*other) +
                                                      ", encoder_num_attention_heads " +
                                                      std::to_string(heads));
  c.decoder_attention_heads = heads;
  read_part_rotation(in, c.d_model / heads, kPart, kPart);
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.encoder_positions = static_cast<int>(positions_of(kMostSamples));
  out.frames = FrameLimits{1, positions_of, {}, SoundInput::kSamples};
  out.widest_linear = std::max(out.widest_linear, int64_t{2} * c.decoder_ffn_dim);
  // Windows and results of each convolution, of as many rows as a single position needs.
  int64_t stem = 0, rows = 1;
  for (size_t i = std::size(kSteps); i-- > 0;) {
    const ConvolutionShape shape = shape_of(kSteps[i], c.d_model);
    stem += rows * (shape.in * shape.width + shape.out);
    rows = (rows - 1) * shape.stride + shape.width;
  }
  out.scratch_values_per_token =
      std::max(out.scratch_values_per_token + c.decoder_ffn_dim, stem + rows);
  return out;
}

}  // namespace moonshine

ModelFamily moonshine_family() {
  using namespace moonshine;
  return {.model_type = "moonshine",
          .architectures = {"MoonshineForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 1, .eos = 2, .decoder_start = 1},
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
