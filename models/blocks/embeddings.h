// Token and position embeddings of a side of an encoder/decoder model.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "models/config/config.h"
#include "parallel/layers/layers.h"

namespace tandem {

// A table of positions, or none. Rotary positions are a matter of attention.
class Positions {
 public:
  static Positions none() { return Positions(); }
  // Position p is row p + offset of the `embed_positions` of `w`, which has that many rows more.
  static Positions learned(const Weights& w, const Build& b, int count, int d_model, int offset);
  // Sines in the first half of the features, cosines in the second. A table in the file is used.
  static Positions sinusoidal(const Weights& w, const Build& b, int count, int d_model);
  // The same halves with fairseq's frequencies. Position p is row p + pad + 1. pad: the id of
  // padding, whose own position is -1, a row of zeros; -1: none.
  static Positions fairseq_sinusoidal(const Build& b, int count, int d_model, int pad);

  // Position p is row p + offset of these rows [count, d_model] f32.
  static Positions of_rows(const Build& b, const Tensor& rows, int offset);

  const Tensor& table() const { return table_; }  // empty: none
  int offset() const { return offset_; }

 private:
  std::optional<HostTensor> keep_alive_;  // the mapping of the table
  Tensor table_;
  int offset_ = 0;
};

// norm(scale * tokens[ids] + positions); norm and positions are optional.
class Embeddings {
 public:
  Embeddings(VocabParallelEmbedding tokens, Positions positions, std::optional<Norm> norm = {})
      : tokens_(std::move(tokens)), positions_(std::move(positions)), norm_(std::move(norm)) {}

  // [T] ids and their positions → [T, d_model].
  Tensor forward(const Tensor& ids, const Tensor& position_ids) const {
    return tokens_.forward(ids, position_ids, positions_.table(), positions_.offset(),
                           norm_ ? &*norm_ : nullptr);
  }
  const VocabParallelEmbedding& tokens() const { return tokens_; }
  // The tokens' table is the module of that scope.
  void adapt(const std::string& module) { tokens_.adapt(module); }

 private:
  VocabParallelEmbedding tokens_;
  Positions positions_;
  std::optional<Norm> norm_;
};

// A row of embeddings that stands for one id instead of the table's, whatever the table's scale.
class OwnRow {
 public:
  // `row`: [d_model] of the id; `tokens` and `scale`: the table, as its embeddings have it.
  OwnRow(const HostTensor& row, int id, const HostTensor& tokens, float scale, const Build& b);
  // [T] ids → [T, d_model], to be added to their embeddings: zero for all other ids.
  Tensor forward(const Tensor& ids, const Tensor& position_ids) const;

 private:
  Build build_;
  Tensor difference_;  // [1, d_model] f32
  int32_t id_;
};

// The four names under which files hold the token embeddings. They are usually one tensor, saved
// under some of its names. As in HuggingFace, a table saved under its own name is used. With two
// vocabularies each side has its own.
// `root` has the head, `model` the sides. Throws InputError naming the tensor that is missing.
struct SideScopes {
  const char *encoder = "encoder", *decoder = "decoder";
};
struct TokenTables {
  // Where "shared" is not saved, the first of these is it.
  enum class Order { kHeadDecoderEncoder, kHeadEncoderDecoder, kEncoderDecoderHead };
  TokenTables(const Weights& root, const Weights& model, const ModelConfig& c,
              Order order = Order::kHeadDecoderEncoder, const SideScopes& sides = {});
  HostTensor encoder, decoder, head;
};

// The table `own`.weight; where it is not stored, `other`.weight, if they are tied. Throws
// InputError naming the former.
HostTensor one_of_tied(const Weights& own, const Weights& other, const Shape& shape, bool tied);
// Both of them: the embeddings of tokens and the head's.
struct TiedTables {
  TiedTables(const Weights& words, const Weights& projection, const Shape& shape, bool tied)
      : tokens(one_of_tied(words, projection, shape, tied)),
        head(one_of_tied(projection, words, shape, tied)) {}
  HostTensor tokens, head;
};

// Rows [V, d] in f32, each behind the layer norm of `norm`; memory of their own.
HostTensor normed_rows(const HostTensor& rows, const Weights& norm, float eps = 1e-5f);

}  // namespace tandem
