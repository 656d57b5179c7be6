// mBART and mBART-50 (Liu et al. 2020, Tang et al. 2020; HuggingFace
// MBartForConditionalGeneration): BART with pre-norm layers and a norm behind the last one.
#include "models/blocks/bart_shape.h"
#include "models/family.h"

namespace tandem {
namespace {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_bart_shape(c, root, b, NormPlace::kPre);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 50265,
                                           .d_model = 1024,
                                           .encoder_layers = 12,
                                           .decoder_layers = 12,
                                           .encoder_attention_heads = 16,
                                           .decoder_attention_heads = 16,
                                           .encoder_ffn_dim = 4096,
                                           .decoder_ffn_dim = 4096,
                                           .max_position_embeddings = 1024,
                                           .activation = "gelu"};

}  // namespace

ModelFamily mbart_family() {
  return {.model_type = "mbart",
          .architectures = {"MBartForConditionalGeneration", "MBartModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .make = make};
}

}  // namespace tandem
