// EncoderDecoder (Rothe et al. 2019; HuggingFace EncoderDecoderModel): two models of text, each of
// a class and sizes of its own; the decoder has cross-attention.
#include <string>
#include <vector>

#include "models/config/side_config.h"
#include "models/family.h"
#include "models/sides/composite_model.h"

namespace tandem {
namespace encoder_decoder {

struct Sides {
  explicit Sides(const ConfigReader& in)
      : encoder(read_encoder_side(part_of(in, "encoder"),
                                  {"bert", "roberta", "camembert", "xlm-roberta"})),
        decoder(read_decoder_side(part_of(in, "decoder"),
                                  {"bert", "roberta", "camembert", "xlm-roberta", "gpt2"})) {
    check_sides(part_of(in, "decoder"), encoder, decoder);
  }
  EncoderSide encoder;
  DecoderSide decoder;
};

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Sides sides(in);
  read_sizes(sides.encoder, sides.decoder, c);
  if (sides.encoder.vocab_size != sides.decoder.vocab_size)
    c.encoder_vocab_size = sides.encoder.vocab_size;
}

ModelLimits limits(const ModelConfig& c) {
  const Sides sides(c.reader());
  ModelLimits out = limits_of_sides(sides.encoder, sides.decoder);
  out.encoder_positions = sides.encoder.positions;
  out.encoder_vocabulary = c.encoder_vocab_size;
  out.position_padding.encoder = sides.encoder.position_padding;
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Sides sides(c.reader());
  return std::make_unique<CompositeModel>(
      c, b, root, sides.encoder, sides.encoder.options,
      [&] { return sides.encoder.embeddings(root / "encoder", b); }, sides.decoder);
}

}  // namespace encoder_decoder

ModelFamily encoder_decoder_family() {
  using namespace encoder_decoder;
  return {.model_type = "encoder-decoder",
          .architectures = {"EncoderDecoderModel"},
          .base = "encoder_decoder",
          .read_config = read_config,
          .limits = limits,
          .make = make};
}

}  // namespace tandem
