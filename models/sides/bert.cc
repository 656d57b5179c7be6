// BERT (Devlin et al. 2018), and RoBERTa (Liu et al. 2019), whose positions begin behind the
// padding id and do not count it: post-norm layers, learned positions, token types, of which only
// the first is used. As a decoder a transform stands before the output embedding. BLIP's decoder
// (Li et al. 2022) is BERT without token types.
#include <utility>

#include "models/sides/sides.h"

namespace tandem {
namespace {

struct Bert : SideSizes {
  int vocab_size = 0, position_rows = 0, token_types = 0;
  int first_position = 0;  // the row of position 0
  int states_width = 0;    // DecoderSide
  float eps = 0;
  bool tied = true;
};

// HuggingFace's, of missing keys.
struct Defaults {
  int vocab_size = 30522, heads = 12;
};

Bert read_bert(const ConfigReader& in, const Defaults& defaults = {}) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  Bert out;
  out.vocab_size = size_or(in, "vocab_size", kRows, defaults.vocab_size);
  out.d_model = size_or(in, "hidden_size", kWidth, 768);
  out.layers = size_or(in, "num_hidden_layers", kCount, 12);
  out.heads = size_or(in, "num_attention_heads", kCount, defaults.heads);
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 3072);
  out.activation = in.activation("hidden_act", "gelu");
  out.position_rows = size_or(in, "max_position_embeddings", kRows, 512);
  out.token_types = size_or(in, "type_vocab_size", kRows, 2);
  out.eps = in.positive("layer_norm_eps", 1e-12f);
  out.tied = in.flag("tie_word_embeddings", true);
  check_heads(in, "num_attention_heads", out);
  return out;
}

// Sets the padding id too.
Bert read_roberta(const ConfigReader& in, std::optional<int32_t>& padding) {
  Bert out = read_bert(in);
  if (!in.find("vocab_size")) out.vocab_size = 50265;
  const nlohmann::json* pad = in.find("pad_token_id");
  const bool named = pad != nullptr || !in.raw().contains("pad_token_id");
  if (!named || (pad != nullptr && (!pad->is_number_integer() || *pad < 0 ||
                                    *pad >= out.vocab_size || *pad >= out.position_rows - 1)))
    in.fail("pad_token_id", "is " + (named ? in.show(*pad) : std::string("null")) +
                                ", expected an id of the vocabulary, below "
                                "max_position_embeddings - 1, behind which positions begin");
  padding = pad != nullptr ? pad->get<int32_t>() : 1;
  out.first_position = *padding + 1;
  return out;
}

SideOptions layers_of(const Bert& c) {
  SideOptions out = options_of(c, NormPlace::kPost, c.eps);
  out.layers = "encoder.layer";
  LayerOptions::Names& names = out.layer.names;
  names.self_attention = "attention";
  names.self_norm = "attention.output.LayerNorm";
  names.cross_attention = "crossattention";
  names.cross_norm = "crossattention.output.LayerNorm";
  names.fc1 = "intermediate.dense";
  names.fc2 = "output.dense";
  names.final_norm = "output.LayerNorm";
  for (AttentionOptions* attention : {&out.layer.self_attention, &out.layer.cross_attention})
    attention->names = {"self.query", "self.key", "self.value", "output.dense"};
  return out;
}

Embeddings embeddings_of(const Bert& c, const HostTensor& tokens, const Weights& w,
                         const Build& b) {
  w.find_any("position_ids");  // of old files, which follow from the sizes
  w.find_any("token_type_ids");
  const Tensor rows =
      to_float((w / "position_embeddings").get("weight", {c.position_rows, c.d_model}))
          .reshape({c.position_rows, c.d_model});
  if (c.token_types > 0) {
    const Tensor type = to_float(
        (w / "token_type_embeddings").get("weight", {c.token_types, c.d_model}), 0, c.d_model);
    for (int64_t r = 0; r < rows.dim(0); ++r)
      for (int64_t i = 0; i < rows.dim(1); ++i) rows.row<float>(r)[i] += type.data<float>()[i];
  }
  return {VocabParallelEmbedding(tokens, b, 1.0f), Positions::of_rows(b, rows, c.first_position),
          Norm(w / "LayerNorm", b, c.d_model, c.eps)};
}

EncoderSide make_encoder(const ConfigReader& in, const Bert& c, std::optional<int32_t> padding) {
  need_flag(in, "is_decoder", false, "an encoder that looks back only is not supported");
  EncoderSide out{c, c.vocab_size, c.position_rows - c.first_position, padding, layers_of(c)};
  out.embeddings = [c](const Weights& w, const Build& b) {
    (w / "pooler").skip();
    const Weights scope = w / "embeddings";
    const Shape shape{c.vocab_size, c.d_model};
    return embeddings_of(c, (scope / "word_embeddings").get("weight", shape), scope, b);
  };
  return out;
}

// The tensors of a decoder's head.
struct HeadNames {
  const char* base;  // of the layers
  const char* head;
  const char* dense;
  const char* norm;
};
constexpr HeadNames kBertHead = {"bert", "cls.predictions", "transform.dense",
                                 "transform.LayerNorm"};
constexpr HeadNames kRobertaHead = {"roberta", "lm_head", "dense", "layer_norm"};

DecoderSide make_decoder(const Bert& c, std::optional<int32_t> padding, const HeadNames& names,
                         Activation activation) {
  DecoderSide out{c, c.vocab_size, c.position_rows - c.first_position, padding};
  out.tied = c.tied;
  out.states_width = c.states_width;
  out.options = layers_of(c);
  out.ends = [c, names, activation](const Weights& w, const Build& b) {
    const Weights layers = w / names.base, head = w / names.head;
    const Weights scope = layers / "embeddings";
    const TiedTables tables(scope / "word_embeddings", head / "decoder", {c.vocab_size, c.d_model},
                            c.tied);
    // The bias lies under one of two names, or under both.
    const Shape of_bias{c.vocab_size};
    auto bias = (head / "decoder").find("bias", of_bias);
    const auto other = head.find("bias", of_bias);
    if (!bias && c.tied) bias = other;
    if (!bias) bias = (c.tied ? head : head / "decoder").get("bias", of_bias);  // throws
    return DecoderSide::Ends{layers, [=, &b] { return embeddings_of(c, tables.tokens, scope, b); },
                             [=, &b] { return ParallelLMHead(tables.head, to_float(*bias), b); },
                             [=, &b] {
                               return HeadTransform(head / names.dense, head / names.norm, b,
                                                    c.d_model, activation, c.eps);
                             }};
  };
  return out;
}

void check_decoder(const ConfigReader& in, Bert& c) {
  need_flag(in, "is_decoder", true, "it is no decoder");
  need_flag(in, "add_cross_attention", true, "the decoder does not read the encoder's states");
  c.states_width = read_states_width(in, c, /*takes_any=*/false);
}

EncoderSide roberta_encoder(const ConfigReader& in) {
  std::optional<int32_t> padding;
  const Bert c = read_roberta(in, padding);
  return make_encoder(in, c, padding);
}

DecoderSide roberta_decoder(const ConfigReader& in) {
  std::optional<int32_t> padding;
  Bert c = read_roberta(in, padding);
  check_decoder(in, c);
  return make_decoder(c, padding, kRobertaHead, Activation::kGelu);
}

}  // namespace

SideClass bert_side() {
  return {"bert", [](const ConfigReader& in) { return make_encoder(in, read_bert(in), {}); },
          [](const ConfigReader& in) {
            Bert c = read_bert(in);
            check_decoder(in, c);
            return make_decoder(c, {}, kBertHead, c.activation);
          }};
}

SideClass blip_text_side() {
  return {"blip_text_model", nullptr, [](const ConfigReader& in) {
            if (!in.flag("is_decoder", true)) in.fail("is_decoder", "is false: it is no decoder");
            Bert c = read_bert(in, {30524, 8});
            c.token_types = 0;
            c.states_width = size_or(in, "encoder_hidden_size", ConfigReader::kMaxWidth, 768);
            return make_decoder(c, {}, kBertHead, c.activation);
          }};
}

SideClass roberta_side() { return {"roberta", roberta_encoder, roberta_decoder}; }
// The same layers, with other tokenizers.
SideClass camembert_side() { return {"camembert", roberta_encoder, roberta_decoder}; }
SideClass xlm_roberta_side() { return {"xlm-roberta", roberta_encoder, roberta_decoder}; }

}  // namespace tandem
