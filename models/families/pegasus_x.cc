// Pegasus-X (Phang et al. 2022; HuggingFace PegasusXForConditionalGeneration): Pegasus for long
// inputs. A token of the encoder sees its block and some learned vectors that each sequence carries
// through all layers; every other layer shifts the blocks by half a block. No biases of attention,
// sinusoidal positions, scaled embeddings.
#include <algorithm>
#include <cstdint>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace pegasus_x {

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(96103);
  out.encoder_layers = out.decoder_layers = 16;
  out.max_position_embeddings = 16384;
  out.scale_embedding = true;
  return out;
}();

// Keys of config.json that ModelConfig does not have.
struct Extras {
  CarriedVectors carried;
  bool staggered = true;
};

Extras read_extras(const ConfigReader& in) {
  return {{size_or(in, "num_global_tokens", in.kMaxRows, 32),
           size_or(in, "block_size", in.kMaxRows, 512)},
          in.flag("stagger_local_blocks", true)};
}

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  const Extras extras = read_extras(in);
  // (HuggingFace cuts a shifted sequence into whole blocks, which odd ones do not give.)
  if (extras.staggered && extras.carried.block % 2 != 0 && out.encoder_layers > 1)
    in.fail("block_size", "must be even, found " + std::to_string(extras.carried.block));
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.rows_per_sequence = read_extras(c.reader()).carried.count;
  return out;
}

void set_attention(AttentionOptions& options) { options.bias = Bias::kNone; }

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c.reader());
  const Positions table =
      Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model, /*pad=*/-1);
  return make_fairseq_model(
      c, root, b,
      {.norms = NormPlace::kPre,
       .positions = [&](const Weights&) { return table; },
       .encoder =
           [&](SideOptions& side) {
             set_attention(side.layer.self_attention);
             side.layer.block_attention = {.carried = extras.carried,
                                           .norm = "global_self_attn_layer_norm"};
             side.of_layer = [staggered = extras.staggered](int i, LayerOptions& layer) {
               layer.block_attention->staggered = staggered && i % 2 == 1;
             };
           },
       .decoder =
           [&](SideOptions& side) {
             set_attention(side.layer.self_attention);
             set_attention(side.layer.cross_attention);
           },
       .carried = "embed_global"});
}

}  // namespace pegasus_x

ModelFamily pegasus_x_family() {
  using namespace pegasus_x;
  return {.model_type = "pegasus_x",
          .architectures = {"PegasusXForConditionalGeneration", "PegasusXModel"},
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {TokenizerRule{"", "pegasus_x", TokenizerRule::Kind::kFile}},
          .make = make};
}

}  // namespace tandem
