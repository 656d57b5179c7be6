// BART (Lewis et al. 2020; HuggingFace BartForConditionalGeneration and BartModel): post-norm
// layers, learned positions with an offset of 2, a layer norm behind the embeddings, tied output
// embedding.
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "encoder.layernorm_embedding.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  const auto embeddings = [&](const Weights& w, const VocabParallelEmbedding& tokens) {
    return Embeddings(
        tokens, Positions::learned(w, b, c.max_position_embeddings, c.d_model, kPositionOffset),
        Norm(w / "layernorm_embedding", b, c.d_model));
  };
  const auto [encoder_tokens, decoder_tokens] = token_embeddings(tables, b, c);
  Seq2Seq::Parts parts{embeddings(encoder, encoder_tokens), embeddings(decoder, decoder_tokens),
                       ParallelLMHead(tables.head, final_logits_bias(root, c), b)};
  // Old checkpoints carry the layout's version beside the weights.
  for (const Weights& side : {encoder, decoder}) side.find_any("version");
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder,
                                   encoder_side(c, NormPlace::kPost), decoder,
                                   decoder_side(c, NormPlace::kPost));
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

TokenizerRule tokenizer(const char* class_name, const char* model_type) {
  TokenizerRule rule{class_name, model_type};
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

ModelFamily bart_family() {
  return {
      .model_type = "bart",
      .architectures = {"BartForConditionalGeneration", "BartModel"},
      .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
      .read_config = [](const ConfigReader& in,
                        ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
      .decoder_prompt = start_and_bos_prompt,
      .tokenizers = {tokenizer("BartTokenizer", "bart"), tokenizer("RobertaTokenizer", "roberta")},
      .make = make};
}

}  // namespace tandem
