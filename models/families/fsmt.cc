// FSMT (Ng et al. 2019, WMT19; HuggingFace FSMTForConditionalGeneration, FSMTModel): post-norm
// layers, fairseq's sinusoidal positions, scaled embeddings, a vocabulary for each language, an
// output embedding of its own, Moses' words.
#include <string>
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace fsmt {

constexpr int kVocabulary = 42024, kPad = 1;  // HuggingFace's, where config.json names none

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(kVocabulary);
  out.activation = "relu";
  out.scale_embedding = true;
  out.tie_word_embeddings = false;
  return out;
}();

void read_config(const ConfigReader& in, ModelConfig& c) {
  read_encoder_decoder(in, kDefaults, c);
  c.vocab_size = in.size("tgt_vocab_size", in.kMaxRows, "vocab_size").value_or(kVocabulary);
  c.encoder_vocab_size = in.size("src_vocab_size", in.kMaxRows).value_or(kVocabulary);
  const int pad = padding_of(in, kPad);
  if (pad < 0 || pad >= c.vocab_size || pad >= c.encoder_vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in both vocabularies");
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  const int pad = padding_of(c.reader(), kPad);
  out.position_padding = {pad, pad};
  out.whole_prompts = true;
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const char* norm = "encoder.layers.0.self_attn_layer_norm.weight";
  const Weights model = scope_of(root, "model", norm, {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  for (const Weights& side : {encoder, decoder}) (side / "embed_positions").skip();
  const Weights source = encoder / "embed_tokens", target = decoder / "embed_tokens",
                projection = decoder / "output_projection";
  const Shape of_source{c.encoder_vocab_size, c.d_model}, of_target{c.vocab_size, c.d_model};
  const bool tied = c.tie_word_embeddings;
  const Positions positions = Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model,
                                                            padding_of(c.reader(), kPad));
  const auto embeddings = [&](const HostTensor& rows) {
    return Embeddings(VocabParallelEmbedding(rows, b, embedding_scale(c)), positions);
  };
  Seq2Seq::Parts parts{
      [&] { return embeddings(one_of_tied(source, target, of_source, tied)); },
      [&] { return embeddings(one_of_tied(target, projection, of_target, tied)); },
      [&] { return ParallelLMHead(one_of_tied(projection, target, of_target, tied), {}, b); }};
  const std::string head = projection.scope();
  parts.head_name = head.c_str();
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder,
                                   encoder_side(c, NormPlace::kPost), decoder,
                                   decoder_side(c, NormPlace::kPost));
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"FSMTTokenizer", "fsmt", TokenizerRule::Kind::kMosesBpe};
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"unk_token", "<unk>"},
                                      {"sep_token", "</s>"},
                                      {"pad_token", "<pad>"}});
  rule.outside_is_unknown = true;
  rule.single = {"$A", "sep_token"};
  rule.pair = {"$A", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace fsmt

ModelFamily fsmt_family() {
  using namespace fsmt;
  return {.model_type = "fsmt",
          .architectures = {"FSMTForConditionalGeneration", "FSMTModel"},
          .special_tokens = {.bos = 0, .pad = kPad, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
