// M2M100 and dense NLLB (Fan et al. 2020, NLLB team 2022; HuggingFace
// M2M100ForConditionalGeneration): pre-norm layers with a norm behind the last one, fairseq's
// sinusoidal positions, scaled embeddings, tied output embedding.
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr int kPad = 1;  // HuggingFace's, where config.json names none

int pad_of(const nlohmann::json& config) {
  const auto pad = config.find("pad_token_id");
  return pad != config.end() && pad->is_number_integer() ? pad->get<int>() : kPad;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "encoder.layer_norm.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  const auto [encoder_tokens, decoder_tokens] = token_embeddings(tables, b, c);
  const Positions positions =
      Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model, pad_of(c.raw));
  Seq2Seq::Parts parts{Embeddings(encoder_tokens, positions), Embeddings(decoder_tokens, positions),
                       ParallelLMHead(tables.head, final_logits_bias(root, c), b)};
  // Old checkpoints carry the table of positions, which follows from its size.
  for (const Weights& side : {encoder, decoder}) (side / "embed_positions").find_any("weights");
  SideOptions of_encoder = encoder_side(c, NormPlace::kPre);
  SideOptions of_decoder = decoder_side(c, NormPlace::kPre);
  of_encoder.final_norm = of_decoder.final_norm = "layer_norm";
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 128112,
                                           .d_model = 1024,
                                           .encoder_layers = 12,
                                           .decoder_layers = 12,
                                           .encoder_attention_heads = 16,
                                           .decoder_attention_heads = 16,
                                           .encoder_ffn_dim = 4096,
                                           .decoder_ffn_dim = 4096,
                                           .max_position_embeddings = 1024,
                                           .activation = "relu",
                                           .scale_embedding = true};

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  const int pad = pad_of(in.raw());
  if (pad < 0 || pad >= out.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"M2M100Tokenizer", "m2m_100", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.source = rule.sentencepiece.target = "sentencepiece.bpe.model";
  rule.languages = {"__", "__", "en"};
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"}});
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return rule;
}

TokenizerRule nllb_tokenizer() {
  TokenizerRule rule{"NllbTokenizer", "nllb", TokenizerRule::Kind::kPieceBpe};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces, /*split_whitespace=*/false,
                /*from_pieces=*/false};
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"cls_token", "<s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask>"}});
  rule.special_tokens.back().second.lstrip = true;
  rule.languages.fallback = "eng_Latn";
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return rule;
}

}  // namespace

ModelFamily m2m100_family() {
  return {.model_type = "m2m_100",
          .architectures = {"M2M100ForConditionalGeneration", "M2M100Model"},
          .special_tokens = {.bos = 0, .pad = kPad, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .tokenizers = {tokenizer(), nllb_tokenizer()},
          .make = make};
}

}  // namespace tandem
