// MVP (Tang et al. 2022; HuggingFace MvpForConditionalGeneration): BART; checkpoints with prompts
// in their layers are refused.
#include "models/blocks/bart_shape.h"
#include "models/family.h"

namespace tandem {
namespace {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_bart_shape(c, root, b, NormPlace::kPost);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 50267,
                                           .d_model = 1024,
                                           .encoder_layers = 12,
                                           .decoder_layers = 12,
                                           .encoder_attention_heads = 16,
                                           .decoder_attention_heads = 16,
                                           .encoder_ffn_dim = 4096,
                                           .decoder_ffn_dim = 4096,
                                           .max_position_embeddings = 1024,
                                           .activation = "gelu"};

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  if (in.flag("use_prompt", false))
    throw not_supported("use_prompt", "prompts in the layers of MVP are not supported");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"MvpTokenizer", "mvp"};
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"cls_token", "<s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask>"}});
  rule.single = {"cls_token", "$A", "sep_token"};
  rule.pair = {"cls_token", "$A", "sep_token", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace

ModelFamily mvp_family() {
  return {.model_type = "mvp",
          .architectures = {"MvpForConditionalGeneration", "MvpModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
