// HuggingFace's versions of fairseq models (Ott et al. 2019): most encoder/decoder families differ
// only in the place of norms and in their positions.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/blocks/seq2seq.h"
#include "models/config/encoder_decoder.h"
#include "text/tokenizer_rule.h"

namespace tandem {

struct FairseqShape {
  const char* model = "model";  // the scope of the sides where there is a head
  SideScopes sides = {};
  // kPre: each side ends with a norm.
  NormPlace norms = NormPlace::kPost;
  const char* last_norm = "layer_norm";
  bool embedding_norm = false;  // behind the embeddings, "layernorm_embedding"
  TokenTables::Order tables = TokenTables::Order::kHeadDecoderEncoder;
  // Of a side, whose weights are given.
  std::function<Positions(const Weights& side)> positions;
  std::function<Positions(const Weights& side)> decoder_positions = {};  // empty: as the encoder's
  std::function<void(SideOptions& side)> encoder = {};  // what else the encoder's layers have
  std::function<void(SideOptions& side)> decoder = {};  // and the decoder's
  const char* carried = nullptr;  // the table of the carried vectors of BlockAttention
};

// Throws InputError naming the tensor that is missing or of another shape.
std::unique_ptr<Model> make_fairseq_model(const ModelConfig& c, const Weights& root, const Build& b,
                                          const FairseqShape& shape);

// With learned positions; row p + offset is position p.
std::unique_ptr<Model> make_fairseq_model(
    const ModelConfig& c, const Weights& root, const Build& b, NormPlace norms, bool embedding_norm,
    int offset, TokenTables::Order tables = TokenTables::Order::kHeadDecoderEncoder);

// Most of their large checkpoints: 12 layers a side, 1024 features, 16 heads, 1024 positions.
constexpr EncoderDecoderDefaults fairseq_defaults(int vocab_size) {
  return {.vocab_size = vocab_size,
          .d_model = 1024,
          .encoder_layers = 12,
          .decoder_layers = 12,
          .encoder_attention_heads = 16,
          .decoder_attention_heads = 16,
          .encoder_ffn_dim = 4096,
          .decoder_ffn_dim = 4096,
          .max_position_embeddings = 1024,
          .activation = "gelu"};
}

// <s>, </s>, <unk>, <pad>, <mask> under the keys of HuggingFace's classes. mask_takes_space: white
// space before <mask> belongs to it. mask_is_normalized: it is looked for in the normalised text.
TokenizerRule::Tokens fairseq_tokens(bool mask_takes_space = false,
                                     bool mask_is_normalized = false);

// sentencepiece.bpe.model with <s>, <pad>, </s>, <unk>, as `config` names them, in place of its
// first three pieces. begins_with: the key of the first one, cls_token or bos_token.
TokenizerRule::PieceFile fairseq_pieces(
    TokenizerRule::PieceFile::Tokens (*behind)(const JsonView& config),
    std::string_view begins_with = "bos_token");
// The words of the lists, and <mask>, as `config` names it.
TokenizerRule::PieceFile::Tokens tokens_and_mask(std::initializer_list<std::string_view> lists,
                                                 const JsonView& config);
// Of a list with spaces between them.
std::vector<std::string> words_of(std::string_view list);
// The token under a key of tokenizer_config.json.
std::string token_of(const JsonView& config, const std::string& key, const char* otherwise);

}  // namespace tandem
