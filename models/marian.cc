// Marian (Junczys-Dowmunt et al. 2018; HuggingFace MarianMTModel): post-norm layers, sinusoidal
// positions, one vocabulary for both languages, tied output embedding, two SentencePiece models.
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model =
      scope_of(root, "model", "encoder.layers.0.fc1.weight", {c.encoder_ffn_dim, c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  const auto [encoder_tokens, decoder_tokens] = token_embeddings(tables, b, c);
  const auto positions = [&](const Weights& w) {
    return Positions::sinusoidal(w, b, c.max_position_embeddings, c.d_model);
  };
  Seq2Seq::Parts parts{Embeddings(encoder_tokens, positions(encoder)),
                       Embeddings(decoder_tokens, positions(decoder)),
                       ParallelLMHead(tables.head, final_logits_bias(root, c), b)};
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder,
                                   encoder_side(c, NormPlace::kPost), decoder,
                                   decoder_side(c, NormPlace::kPost));
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 58101,
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
  if (!in.flag("share_encoder_decoder_embeddings", true))
    throw not_supported("share_encoder_decoder_embeddings",
                        "vocabularies apart for the two languages are not supported");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"MarianTokenizer", "marian", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.codes = rule.sentencepiece.space_behind_special = true;
  rule.special_tokens =
      class_tokens({{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace

ModelFamily marian_family() {
  return {.model_type = "marian",
          .architectures = {"MarianMTModel", "MarianModel"},
          .special_tokens = {.pad = 58100, .eos = 0, .decoder_start = 58100},
          .read_config = read_config,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
