// M2M100 and dense NLLB (Fan et al. 2020, NLLB team 2022; HuggingFace
// M2M100ForConditionalGeneration): pre-norm layers with a norm behind the last one, fairseq's
// sinusoidal positions, scaled embeddings, tied output embedding.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr int kPad = 1;  // HuggingFace's, where config.json names none

int pad_of(const nlohmann::json& config) {
  const auto pad = config.find("pad_token_id");
  return pad != config.end() && pad->is_number_integer() ? pad->get<int>() : kPad;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Positions table =
      Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model, pad_of(c.raw));
  const auto positions = [&](const Weights& side) {
    // Old checkpoints carry the table, which follows from its size.
    (side / "embed_positions").find_any("weights");
    return table;
  };
  return make_fairseq_model(c, root, b, {.norms = NormPlace::kPre, .positions = positions});
}

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(128112);
  out.activation = "relu";
  out.scale_embedding = true;
  return out;
}();

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  const int pad = pad_of(in.raw());
  if (pad < 0 || pad >= out.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"M2M100Tokenizer", "m2m_100", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.source = rule.sentencepiece.target = "sentencepiece.bpe.model";
  rule.languages = {"__", "__", "en", TokenizerRule::Languages::Target::kForcedBos};
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
  rule.special_tokens = fairseq_tokens(/*mask_takes_space=*/true);
  rule.languages.fallback = "eng_Latn";
  rule.languages.target = TokenizerRule::Languages::Target::kForcedBos;
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
