// Blenderbot (Roller et al. 2020; HuggingFace BlenderbotForConditionalGeneration): pre-norm layers
// with a norm behind the last one, learned positions without an offset, tied output embedding.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace blenderbot {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPre, /*embedding_norm=*/false, /*offset=*/0,
                            TokenTables::Order::kHeadEncoderDecoder);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 8008,
                                           .d_model = 2560,
                                           .encoder_layers = 2,
                                           .decoder_layers = 24,
                                           .encoder_attention_heads = 32,
                                           .decoder_attention_heads = 32,
                                           .encoder_ffn_dim = 10240,
                                           .decoder_ffn_dim = 10240,
                                           .max_position_embeddings = 128,
                                           .activation = "gelu"};

// Its end token is in tokenizer.json only.
TokenizerRule tokenizer() {
  TokenizerRule rule{"BlenderbotTokenizer", "blenderbot"};
  rule.add_prefix_space = true;
  rule.special_tokens = fairseq_tokens(/*mask_takes_space=*/true);
  return rule;
}

}  // namespace blenderbot

ModelFamily blenderbot_family() {
  using namespace blenderbot;
  return {.model_type = "blenderbot",
          .architectures = {"BlenderbotForConditionalGeneration", "BlenderbotModel"},
          .special_tokens = {.bos = 1, .pad = 0, .eos = 2, .decoder_start = 1},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
