// Blenderbot-small (Roller et al. 2020; HuggingFace BlenderbotSmallForConditionalGeneration):
// post-norm layers, learned positions without an offset, a norm behind the encoder's embeddings,
// and in the decoder between tokens and positions; tied output embedding.
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace blenderbot_small {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "encoder.layernorm_embedding.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c, TokenTables::Order::kHeadEncoderDecoder);
  const auto positions = [&](const Weights& w) {
    return Positions::learned(w, b, c.max_position_embeddings, c.d_model, /*offset=*/0);
  };
  const float scale = embedding_scale(c);
  Seq2Seq::Parts parts{
      [&] {
        return Embeddings(VocabParallelEmbedding(tables.encoder, b, scale), positions(encoder),
                          Norm(encoder / "layernorm_embedding", b, c.d_model));
      },
      [&] {  // HuggingFace scales the encoder's embeddings only
        const HostTensor normed = normed_rows(tables.decoder, decoder / "layernorm_embedding");
        return Embeddings(VocabParallelEmbedding(normed, b, /*scale=*/1.0f), positions(decoder));
      },
      [&] { return ParallelLMHead(tables.head, final_logits_bias(root, c), b); }};
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder,
                                   encoder_side(c, NormPlace::kPost), decoder,
                                   decoder_side(c, NormPlace::kPost));
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 50265,
                                           .d_model = 512,
                                           .encoder_layers = 8,
                                           .decoder_layers = 8,
                                           .encoder_attention_heads = 16,
                                           .decoder_attention_heads = 16,
                                           .encoder_ffn_dim = 2048,
                                           .decoder_ffn_dim = 2048,
                                           .max_position_embeddings = 512,
                                           .activation = "gelu"};

TokenizerRule tokenizer() {
  TokenizerRule rule{"BlenderbotSmallTokenizer", "blenderbot-small",
                     TokenizerRule::Kind::kSubwordBpe};
  rule.special_tokens = class_tokens({{"bos_token", "__start__"},
                                      {"eos_token", "__end__"},
                                      {"unk_token", "__unk__"},
                                      {"pad_token", "__null__"}});
  rule.outside_is_unknown = true;
  return rule;
}

}  // namespace blenderbot_small

ModelFamily blenderbot_small_family() {
  using namespace blenderbot_small;
  return {.model_type = "blenderbot-small",
          .architectures = {"BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel"},
          .special_tokens = {.bos = 1, .pad = 0, .eos = 2, .decoder_start = 1},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
