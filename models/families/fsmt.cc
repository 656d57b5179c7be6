// FSMT (Ng et al. 2019, WMT19; HuggingFace FSMTForConditionalGeneration, FSMTModel): post-norm
// layers, fairseq's sinusoidal positions, scaled embeddings, a vocabulary for each language, an
// output embedding of its own, Moses' words.
#include <string>
#include <utility>

#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr EncoderDecoderDefaults kDefaults{.d_model = 1024,
                                           .encoder_layers = 12,
                                           .decoder_layers = 12,
                                           .encoder_attention_heads = 16,
                                           .decoder_attention_heads = 16,
                                           .encoder_ffn_dim = 4096,
                                           .decoder_ffn_dim = 4096,
                                           .max_position_embeddings = 1024,
                                           .activation = "relu",
                                           .scale_embedding = true,
                                           .tie_word_embeddings = false};
constexpr int kVocabulary = 42024, kPad = 1;  // HuggingFace's, where config.json names none

int pad_of(const nlohmann::json& config) {
  const auto found = config.find("pad_token_id");
  return found != config.end() && found->is_number_integer() ? found->get<int>() : kPad;
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  read_encoder_decoder(in, kDefaults, c);
  c.vocab_size = in.size("tgt_vocab_size", in.kMaxRows, "vocab_size").value_or(kVocabulary);
  c.encoder_vocab_size = in.size("src_vocab_size", in.kMaxRows).value_or(kVocabulary);
  const int pad = pad_of(in.raw());
  if (pad < 0 || pad >= c.vocab_size || pad >= c.encoder_vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in both vocabularies");
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.position_padding = {pad_of(c.raw), pad_of(c.raw)};
  return out;
}

// The table of `name`; where it is not stored, that of `other`, if they are tied.
HostTensor table(const Weights& w, const char* name, const char* other, const Shape& shape,
                 bool tied) {
  auto own = (w / name).find("weight", shape);
  if (!own && tied) own = (w / other).find("weight", shape);
  return own ? *own : (w / name).get("weight", shape);  // throws, naming it
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const char* norm = "encoder.layers.0.self_attn_layer_norm.weight";
  const Weights model = scope_of(root, "model", norm, {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  for (const Weights& side : {encoder, decoder}) (side / "embed_positions").skip();
  const char *tokens = "decoder.embed_tokens", *projection = "decoder.output_projection";
  const bool tied = c.tie_word_embeddings;
  const Shape target{c.vocab_size, c.d_model}, source{c.encoder_vocab_size, c.d_model};
  const HostTensor out = table(model, projection, tokens, target, tied);
  const Positions positions =
      Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model, pad_of(c.raw));
  const auto embeddings = [&](const HostTensor& rows) {
    return Embeddings(VocabParallelEmbedding(rows, b, embedding_scale(c)), positions);
  };
  Seq2Seq::Parts parts{
      [&] { return embeddings(table(model, "encoder.embed_tokens", tokens, source, tied)); },
      [&] { return embeddings(table(model, tokens, projection, target, tied)); },
      [&] { return ParallelLMHead(out, {}, b); }};
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

}  // namespace

ModelFamily fsmt_family() {
  return {.model_type = "fsmt",
          .architectures = {"FSMTForConditionalGeneration", "FSMTModel"},
          .special_tokens = {.bos = 0, .pad = kPad, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
