// Marian (Junczys-Dowmunt et al. 2018; HuggingFace MarianMTModel): post-norm layers, sinusoidal
// positions, one vocabulary for both languages or one for each, tied output embedding, two
// SentencePiece models.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace marian {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const auto positions = [&](const Weights& side) {
    return Positions::sinusoidal(side, b, c.max_position_embeddings, c.d_model);
  };
  return make_fairseq_model(c, root, b, {.norms = NormPlace::kPost, .positions = positions});
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(58101);

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  if (in.flag("share_encoder_decoder_embeddings", true)) return;
  out.encoder_vocab_size = out.vocab_size;
  out.vocab_size = in.size("decoder_vocab_size", in.kMaxRows).value_or(out.vocab_size);
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"MarianTokenizer", "marian", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.target_flag = "separate_vocabs";
  rule.sentencepiece.target_vocabulary = "target_vocab.json";
  rule.sentencepiece.outside_pieces = true;
  rule.sentencepiece.codes = rule.sentencepiece.space_behind_special = true;
  rule.languages = {">>", "<<", "", TokenizerRule::Languages::Target::kSourcePrefix};
  rule.special_tokens =
      class_tokens({{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace marian

ModelFamily marian_family() {
  using namespace marian;
  return {.model_type = "marian",
          .architectures = {"MarianMTModel", "MarianModel"},
          .special_tokens = {.pad = 58100, .eos = 0, .decoder_start = 58100},
          .read_config = read_config,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
