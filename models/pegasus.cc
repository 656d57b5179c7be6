// Pegasus (Zhang et al. 2020; HuggingFace PegasusForConditionalGeneration): pre-norm layers with a
// norm behind the last one, sinusoidal positions, tied output embedding.
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
    return Positions::sinusoidal(w, b, c.max_position_embeddings, c.d_model);
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

TokenizerRule tokenizer() {
  TokenizerRule rule{"PegasusTokenizer", "pegasus", TokenizerRule::Kind::kUnigram};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces, /*split_whitespace=*/false,
                /*from_pieces=*/false};
  rule.special_tokens = class_tokens({{"eos_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask_2>"},
                                      {"mask_token_sent", "<mask_1>"}});
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace

ModelFamily pegasus_family() {
  return {.model_type = "pegasus",
          .architectures = {"PegasusForConditionalGeneration", "PegasusModel"},
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
