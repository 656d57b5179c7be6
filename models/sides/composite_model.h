// A model of two sides that are models by themselves (sides.h).
#pragma once

#include <functional>
#include <optional>

#include "models/blocks/seq2seq.h"
#include "models/config/config.h"
#include "models/config/limits.h"
#include "models/sides/sides.h"

namespace tandem {

// Throws InputError if the decoder's cross_attention_hidden_size (of the object `in`) is not the
// encoder's width.
void check_sides(const ConfigReader& in, const SideSizes& encoder, const DecoderSide& decoder);
// Fills in what both sides say.
void read_sizes(const SideSizes& encoder, const DecoderSide& decoder, ModelConfig& out);
// Without the encoder's positions.
ModelLimits limits_of_sides(const SideSizes& encoder, const DecoderSide& decoder);

class CompositeModel : public Seq2Seq {
 public:
  // The scopes of the sides.
  struct Names {
    const char *encoder, *decoder;
  };
  // `embeddings`: of an encoder of ids (Seq2Seq::Parts).
  CompositeModel(const ModelConfig& c, const Build& b, const Weights& root,
                 const SideSizes& encoder, const SideOptions& encoder_options,
                 std::function<Embeddings()> embeddings, const DecoderSide& decoder,
                 const Names& names = {"encoder", "decoder"});

  void write_cross_kv(const StepTensors& in, const Tensor& states, KvCache& cache) override;
  Tensor compute_logits(const Tensor& hidden) override;
  Tensor compute_logits_shard(const Tensor& hidden) override;
  void take_best(const Tensor& hidden, const ops::LinearBestArgs& args) override;

 private:
  CompositeModel(const ModelConfig& c, const Build& b, const Weights& root,
                 const SideSizes& encoder, const SideOptions& encoder_options,
                 std::function<Embeddings()> embeddings, const DecoderSide& decoder,
                 const Names& names, DecoderSide::Ends ends);
  Tensor transformed(const Tensor& hidden) const;

  std::optional<HeadTransform> transform_;
  // Of the encoder's states, where the sides have other widths.
  Range part_;
  std::optional<RowParallelLinear> projection_;
};

}  // namespace tandem
