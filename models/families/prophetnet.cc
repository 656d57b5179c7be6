// ProphetNet (Qi et al. 2020; HuggingFace ProphetNetForConditionalGeneration, ProphetNetModel):
// post-norm layers, learned positions behind the padding's, a decoder in streams, which says what
// follows by the first of them; BERT's words.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/seq2seq.h"
#include "models/config/side_config.h"
#include "models/family.h"
#include "models/word_pieces.h"

namespace tandem {
namespace prophetnet {

constexpr int kPad = 0;  // HuggingFace's, where config.json names none
// Positions that tokens of the decoder lack: the padding's, and that of the last one's streams,
// which is one farther.
constexpr int kBeforeFirst = 1, kBehindLast = 1;

StreamOptions read_streams(const ConfigReader& in) {
  StreamOptions out;
  out.ngram = size_or(in, "ngram", in.kMaxCount, 2);
  out.num_buckets = size_or(in, "num_buckets", in.kMaxCount, 32);
  out.max_distance = size_or(in, "relative_max_distance", in.kMaxWidth, 128);
  stream_buckets(out);  // what is wrong is said now
  return out;
}

int decoder_positions(const ModelConfig& c) {
  return c.max_position_embeddings - padding_of(c.reader(), kPad) - kBeforeFirst - kBehindLast;
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  c.vocab_size = size_or(in, "vocab_size", in.kMaxRows, 30522);
  c.d_model = size_or(in, "hidden_size", kWidth, 1024);
  c.encoder_layers = size_or(in, "num_encoder_layers", kCount, 12);
  c.decoder_layers = size_or(in, "num_decoder_layers", kCount, 12);
  c.encoder_attention_heads =
      in.size("num_encoder_attention_heads", kCount, "num_attention_heads").value_or(16);
  c.decoder_attention_heads = size_or(in, "num_decoder_attention_heads", kCount, 16);
  for (const auto& [key, heads] :
       {std::pair("num_encoder_attention_heads", c.encoder_attention_heads),
        std::pair("num_decoder_attention_heads", c.decoder_attention_heads)})
    if (c.d_model % heads != 0)
      in.fail(key, "is " + std::to_string(heads) + ", which does not divide hidden_size (" +
                       std::to_string(c.d_model) + ")");
  c.encoder_ffn_dim = size_or(in, "encoder_ffn_dim", kWidth, 4096);
  c.decoder_ffn_dim = size_or(in, "decoder_ffn_dim", kWidth, 4096);
  c.max_position_embeddings = size_or(in, "max_position_embeddings", in.kMaxRows, 512);
  c.activation = in.activation("activation_function", "gelu");
  c.tie_word_embeddings = in.flag("tie_word_embeddings", true);
  if (!in.flag("add_cross_attention", true))
    in.fail("add_cross_attention", "is false: there is no encoder without");
  const int pad = padding_of(in, kPad);
  if (pad < 0 || pad >= c.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
  if (c.max_position_embeddings <= pad + kBeforeFirst + kBehindLast)
    in.fail("max_position_embeddings", "leaves no positions behind the padding's");
  read_streams(in);
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.encoder_positions = c.max_position_embeddings;
  out.decoder_positions = decoder_positions(c);
  const StreamOptions streams = read_streams(c.reader());
  // Rows of a token, and those of a whole prompt's streams.
  out.scratch_values_per_token =
      (2 + streams.ngram) *
      (out.scratch_values_per_token + 2 * int64_t{streams.num_buckets} * c.decoder_attention_heads);
  return out;
}

// Row i is row `first` + i of the table, or the last one: HuggingFace's positions end there.
Tensor position_rows(const Tensor& table, int count, int first) {
  const Tensor out({count, table.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(table.row<float>(std::min(first + i, table.dim(0) - 1)), table.dim(1),
                out.row<float>(i));
  return out;
}

Tensor position_table(const Weights& side, const ModelConfig& c) {
  const Shape shape{c.max_position_embeddings, c.d_model};
  return to_float((side / "position_embeddings").get("weight", shape)).reshape(shape);
}

// Of the streams: stream i begins with the embedding before its own, the first one with the last.
std::vector<Tensor> stream_tables(const Weights& decoder, const ModelConfig& c, int ngram) {
  const Shape shape{ngram, c.d_model};
  const Tensor rows = to_float((decoder / "ngram_embeddings").get("weight", shape)).reshape(shape);
  const Tensor positions = position_rows(position_table(decoder, c), decoder_positions(c),
                                         padding_of(c.reader(), kPad) + kBeforeFirst + kBehindLast);
  std::vector<Tensor> out;
  for (int stream = 0; stream < ngram; ++stream) {
    const float* row = rows.row<float>((stream + ngram - 1) % ngram);
    out.emplace_back(positions.shape(), DType::kF32);
    for (int64_t i = 0; i < positions.dim(0); ++i)
      for (int64_t d = 0; d < positions.dim(1); ++d)
        out.back().row<float>(i)[d] = row[d] + positions.row<float>(i)[d];
  }
  return out;
}

// One table for all, or one under each name.
struct Tables {
  Tables(const Weights& root, const Weights& model, const ModelConfig& c) {
    const Shape shape{c.vocab_size, c.d_model};
    const auto find = [&](const Weights& at, const char* name) {
      return (at / name).find("weight", shape);
    };
    const auto of_model = find(model, "word_embeddings"),
               of_encoder = find(model / "encoder", "word_embeddings"),
               of_decoder = find(model / "decoder", "word_embeddings"),
               of_head = find(root, "lm_head");
    for (const auto* one : {&of_head, &of_decoder, &of_encoder, &of_model})
      if (*one) shared = **one;
    if (shared.data == nullptr) shared = (model / "word_embeddings").get("weight", shape);
    encoder = of_encoder.value_or(shared);
    decoder = of_decoder.value_or(shared);
    head = of_head.value_or(shared);
    if (!c.tie_word_embeddings) head = (root / "lm_head").get("weight", shape);
  }
  HostTensor shared, encoder, decoder, head;
};

void name_parts(SideOptions& side) {
  AttentionOptions::Names names{"query_proj", "key_proj", "value_proj", "out_proj"};
  side.layer.self_attention.names = side.layer.cross_attention.names = names;
  side.layer.names.cross_attention = "cross_attn";
  side.layer.names.cross_norm = "cross_attn_layer_norm";
  side.layer.names.fc1 = "feed_forward.intermediate";
  side.layer.names.fc2 = "feed_forward.output";
  side.layer.names.final_norm = "feed_forward_layer_norm";
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model =
      scope_of(root, "prophetnet", "encoder.embeddings_layer_norm.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const Tables tables(root, model, c);
  TokenEmbeddings tokens(tables.encoder, tables.decoder, b, 1.0f, 1.0f);
  const auto positions = [&](const Weights& side, int count) {
    const int first = padding_of(c.reader(), kPad) + kBeforeFirst;
    return Positions::of_rows(b, position_rows(position_table(side, c), count, first), 0);
  };
  const auto norm = [&](const Weights& side) {
    return Norm(side / "embeddings_layer_norm", b, c.d_model);
  };
  SideOptions of_encoder = encoder_side(c, NormPlace::kPost),
              of_decoder = decoder_side(c, NormPlace::kPost);
  for (SideOptions* side : {&of_encoder, &of_decoder}) name_parts(*side);
  of_decoder.layer.streams = read_streams(c.reader());
  Seq2Seq::Parts parts{
      [&] {
        return Embeddings(tokens.encoder(), positions(encoder, c.max_position_embeddings),
                          norm(encoder));
      },
      [&] { return Embeddings(tokens.decoder(), positions(decoder, decoder_positions(c))); },
      [&] { return ParallelLMHead(tables.head, {}, b); }};
  parts.streams = [&] {
    return StreamEmbeddings(b, stream_tables(decoder, c, of_decoder.layer.streams->ngram),
                            norm(decoder));
  };
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
}

// HuggingFace's class runs in Python: it drops characters of no kind too, and tidies decoded texts
// as a whole.
void stages(const TokenizerRule::StageInput& in, nlohmann::json& document) {
  using nlohmann::json;
  bert_words(in, document);
  json words = std::move(document["normalizer"]);
  json others = {
      {"type", "Replace"}, {"pattern", {{"Regex", "[\\p{C}&&[^\\t\\n\\r]]"}}}, {"content", ""}};
  document["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", json::array({std::move(others), std::move(words)})}};
  document["decoder"]["cleanup"] = false;
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"ProphetNetTokenizer", "prophetnet", TokenizerRule::Kind::kWordPiece};
  rule.stages = stages;
  rule.tidies = true;
  rule.pieces.name = "prophetnet.tokenizer";
  rule.special_tokens = class_tokens({{"unk_token", "[UNK]"},
                                      {"sep_token", "[SEP]"},
                                      {"x_sep_token", "[X_SEP]"},
                                      {"pad_token", "[PAD]"},
                                      {"mask_token", "[MASK]"}});
  rule.single = {"$A", "sep_token"};
  rule.pair = {"$A", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace prophetnet

ModelFamily prophetnet_family() {
  using namespace prophetnet;
  return {.model_type = "prophetnet",
          .architectures = {"ProphetNetForConditionalGeneration", "ProphetNetModel"},
          .base = "prophetnet",
          .special_tokens = {.bos = 1, .pad = kPad, .eos = 2, .decoder_start = 0},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
