#include "models/blocks/fairseq_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/task.h"

namespace tandem {
namespace {

TokenizerRule::PieceFile::Tokens first_pieces(const JsonView& config, const char* first) {
  return {{token_of(config, first, "<s>")},
          {token_of(config, "pad_token", "<pad>")},
          {token_of(config, "eos_token", "</s>")},
          {token_of(config, "unk_token", "<unk>")}};
}

}  // namespace

std::unique_ptr<Model> make_fairseq_model(const ModelConfig& c, const Weights& root, const Build& b,
                                          const FairseqShape& shape) {
  const std::string norm = std::string(shape.sides.encoder) +
                           (shape.embedding_norm ? ".layernorm_embedding.weight"
                                                 : ".layers.0.self_attn_layer_norm.weight");
  const Weights model = scope_of(root, shape.model, norm.c_str(), {c.d_model});
  const Weights encoder = model / shape.sides.encoder, decoder = model / shape.sides.decoder;
  const TaskSet tasks = tasks_of(c);
  const bool has_output_head = tasks.has(Task::kClassify) || tasks.has(Task::kAnswer);
  ModelConfig tied = c;  // such a class has no lm_head, whatever the key says
  if (has_output_head) tied.tie_word_embeddings = true;
  const TokenTables tables(root, model, tied, shape.tables, shape.sides);
  const auto embeddings = [&](const Weights& side, const VocabParallelEmbedding& tokens,
                              const auto& positions) {
    std::optional<Norm> behind;
    if (shape.embedding_norm) behind.emplace(side / "layernorm_embedding", b, c.d_model);
    return Embeddings(tokens, positions(side), std::move(behind));
  };
  TokenEmbeddings tokens(tables, b, c);
  const auto& decoder_positions =
      shape.decoder_positions ? shape.decoder_positions : shape.positions;
  Seq2Seq::Parts parts{[&] { return embeddings(encoder, tokens.encoder(), shape.positions); },
                       [&] { return embeddings(decoder, tokens.decoder(), decoder_positions); },
                       {}};
  if (has_output_head)
    parts.output_head = [&] { return find_output_head(root, b, c); };
  else
    parts.head = [&] { return ParallelLMHead(tables.head, final_logits_bias(root, c), b); };
  // Old checkpoints carry the layout's version beside the weights.
  for (const Weights& side : {encoder, decoder}) side.find_any("version");
  SideOptions of_encoder = encoder_side(c, shape.norms), of_decoder = decoder_side(c, shape.norms);
  if (shape.norms == NormPlace::kPre)
    of_encoder.final_norm = of_decoder.final_norm = shape.last_norm;
  if (shape.encoder) shape.encoder(of_encoder);
  if (shape.decoder) shape.decoder(of_decoder);
  if (shape.carried != nullptr)
    parts.carried = [&, count = of_encoder.layer.block_attention->carried.count] {
      return CarriedEmbeddings((encoder / shape.carried).get("weight", {count, c.d_model}), b);
    };
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
}

std::unique_ptr<Model> make_fairseq_model(const ModelConfig& c, const Weights& root, const Build& b,
                                          NormPlace norms, bool embedding_norm, int offset,
                                          TokenTables::Order tables) {
  const auto positions = [&](const Weights& side) {
    return Positions::learned(side, b, c.max_position_embeddings, c.d_model, offset);
  };
  return make_fairseq_model(
      c, root, b,
      {.norms = norms, .embedding_norm = embedding_norm, .tables = tables, .positions = positions});
}

TokenizerRule::Tokens fairseq_tokens(bool mask_takes_space, bool mask_is_normalized) {
  TokenizerRule::Tokens tokens = class_tokens({{"bos_token", "<s>"},
                                               {"eos_token", "</s>"},
                                               {"sep_token", "</s>"},
                                               {"cls_token", "<s>"},
                                               {"unk_token", "<unk>"},
                                               {"pad_token", "<pad>"},
                                               {"mask_token", "<mask>"}});
  tokens.back().second.lstrip = mask_takes_space;
  tokens.back().second.normalized = mask_is_normalized;
  return tokens;
}

std::string token_of(const JsonView& config, const std::string& key, const char* otherwise) {
  const auto token = config.find(key);
  if (!token) return otherwise;
  return token->value().is_object() ? token->at("content").string() : token->string();
}

TokenizerRule::PieceFile fairseq_pieces(
    TokenizerRule::PieceFile::Tokens (*behind)(const JsonView& config),
    std::string_view begins_with) {
  const auto from_bos = [](const JsonView& config) { return first_pieces(config, "bos_token"); };
  const auto from_cls = [](const JsonView& config) { return first_pieces(config, "cls_token"); };
  TokenizerRule::PieceFile out{"sentencepiece.bpe.model", /*replaced=*/3, from_bos, behind};
  if (begins_with == "cls_token") out.before = from_cls;
  return out;
}

std::vector<std::string> words_of(std::string_view list) {
  std::vector<std::string> out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    out.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

TokenizerRule::PieceFile::Tokens tokens_and_mask(std::initializer_list<std::string_view> lists,
                                                 const JsonView& config) {
  TokenizerRule::PieceFile::Tokens out;
  for (const std::string_view list : lists)
    for (std::string& word : words_of(list)) out.push_back({std::move(word)});
  out.push_back({token_of(config, "mask_token", "<mask>")});
  return out;
}

}  // namespace tandem
