// Blenderbot (Roller et al. 2020; HuggingFace BlenderbotForConditionalGeneration): pre-norm layers
// with a norm behind the last one, learned positions without an offset, tied output embedding.
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "encoder.layer_norm.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  const auto [encoder_tokens, decoder_tokens] = token_embeddings(tables, b, c);
  const auto positions = [&](const Weights& w) {
    return Positions::learned(w, b, c.max_position_embeddings, c.d_model, /*offset=*/0);
  };
  Seq2Seq::Parts parts{Embeddings(encoder_tokens, positions(encoder)),
                       Embeddings(decoder_tokens, positions(decoder)),
                       ParallelLMHead(tables.head, final_logits_bias(root, c), b)};
  SideOptions of_encoder = encoder_side(c, NormPlace::kPre);
  SideOptions of_decoder = decoder_side(c, NormPlace::kPre);
  of_encoder.final_norm = of_decoder.final_norm = "layer_norm";
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
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
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"cls_token", "<s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask>"}});
  rule.special_tokens.back().second.lstrip = true;
  return rule;
}

}  // namespace

ModelFamily blenderbot_family() {
  return {.model_type = "blenderbot",
          .architectures = {"BlenderbotForConditionalGeneration", "BlenderbotModel"},
          .special_tokens = {.bos = 1, .pad = 0, .eos = 2, .decoder_start = 1},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
