// SpeechEncoderDecoder (HuggingFace SpeechEncoderDecoderModel), as XLS-R translates (Babu et al.
// 2021): wav2vec 2.0 over the samples of a whole clip, and a decoder of text. Sides of sizes of
// their own.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "models/config/side_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"
#include "models/sides/wave_encoder.h"

namespace tandem {
namespace speech_encoder_decoder {

// HuggingFace knows no bound.
constexpr int64_t kMostSamples = 120 * 16000;

// Keys of config.json that ModelConfig does not have.
struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder(part_of(in, "encoder"))),
        decoder(read_decoder_side(
            part_of(in, "decoder"),
            {"bert", "bart", "camembert", "gpt2", "mbart", "roberta", "trocr", "xlm-roberta"})),
        states(encoder) {
    states.d_model = encoder.width;
    check_sides(part_of(in, "decoder"), states, decoder);
  }
  static WaveEncoderConfig read_encoder(const ConfigReader& in) {
    side_type(in, {"wav2vec2"});
    return read_wave_encoder(in);
  }
  WaveEncoderConfig encoder;
  DecoderSide decoder;
  SideSizes states;  // the encoder's, of its result's width
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.states, sides.decoder, c);
}

ModelLimits limits(const ModelConfig& c) {
  const Sides sides(c.reader());
  const WaveEncoderConfig& encoder = sides.encoder;
  ModelLimits out = limits_of_sides(sides.states, sides.decoder);
  out.frames = FrameLimits{1, [encoder](int64_t samples) { return encoder.positions_of(samples); }};
  out.frames->sound = SoundInput::kSamples;
  out.encoder_positions =
      static_cast<int>(std::max<int64_t>(encoder.positions_of(kMostSamples), 1));
  out.widest_linear =
      std::max({out.widest_linear, int64_t{encoder.ffn_dim}, int64_t{3} * encoder.d_model});
  out.scratch_values_per_token = std::max(out.scratch_values_per_token, encoder.scratch_values());
  return out;
}

// WaveEncoder's layers are before these.
SideOptions encoder_options(const Sides& sides) {
  SideSizes none = sides.encoder;
  none.layers = 0;
  return options_of(none, NormPlace::kPre, sides.encoder.eps);
}

class SpeechModel final : public CompositeModel {
 public:
  SpeechModel(const ModelConfig& c, const Build& b, const Weights& root, const Sides& sides)
      : CompositeModel(c, b, root, sides.states, encoder_options(sides), {}, sides.decoder) {
    if (!b.encoder_layers.has_first()) return;
    // With adapters of its own its layers' rows are more than the encoder's positions.
    const Build build = b.of_many_rows();
    encoder_.emplace(root / "encoder",
                     sides.encoder.adapters > 0 ? build.without_adapters() : build, sides.encoder);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override { return encoder_->forward(in); }

 private:
  std::optional<WaveEncoder> encoder_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return std::make_unique<SpeechModel>(c, b, root, Sides(c.reader()));
}

}  // namespace speech_encoder_decoder

ModelFamily speech_encoder_decoder_family() {
  using namespace speech_encoder_decoder;
  return {.model_type = "speech-encoder-decoder",
          .architectures = {"SpeechEncoderDecoderModel"},
          .base = "speech_encoder_decoder",
          .encoder_input = EncoderInput::kFrames,
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
