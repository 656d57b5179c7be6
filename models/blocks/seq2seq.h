// An encoder/decoder model of parts: embed, layers, logits. A family's file makes one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/blocks/embeddings.h"
#include "models/blocks/layers.h"
#include "models/blocks/output_head.h"
#include "models/model.h"

namespace tandem {

// One side, its weights in a scope of their own.
struct SideOptions {
  LayerOptions layer;
  int num_layers = 0;
  std::string layers = "layers";  // the scope of the numbered layers
  // Changes the options of one layer; empty: all are alike.
  std::function<void(int layer, LayerOptions&)> of_layer = {};
  // Tables of rotary frequencies, [r / 2] f32 on the host (AttentionOptions::rotary).
  std::vector<Tensor> frequencies = {};
  std::string final_norm = {};  // behind the layers; empty: there is none
};

// The options of both sides as ModelConfig has them: heads whose scores are scaled, the
// feed-forward width, the activation.
SideOptions encoder_side(const ModelConfig& c, NormPlace norms);
SideOptions decoder_side(const ModelConfig& c, NormPlace norms);

// The scope of the sides: `inner` in a checkpoint with a head, the root in one without. Decided by
// where `tensor`, of that shape, is.
Weights scope_of(const Weights& root, const char* inner, const char* tensor, const Shape& shape);
// The factor of embeddings: sqrt(d_model) if the configuration says so, else 1.
float embedding_scale(const ModelConfig& c);
// The embeddings of both sides, scaled if the configuration says so. Usually they are one table,
// which is then kept once, also converted to f32.
struct TokenEmbeddings {
  VocabParallelEmbedding encoder, decoder;
};
TokenEmbeddings token_embeddings(const TokenTables& tables, const Build& b, const ModelConfig& c);
// final_logits_bias [1, vocab_size] of the root; empty where there is none.
Tensor final_logits_bias(const Weights& root, const ModelConfig& c);

class Seq2Seq : public Model {
 public:
  struct Parts {
    std::optional<Embeddings> encoder_embeddings;  // none: embed_source() is the family's own
    Embeddings decoder_embeddings;
    std::optional<ParallelLMHead> head;  // none: of a class without a language model's head
    // Of both sides; of models that do not begin with a post-norm.
    std::optional<OwnRow> own_row = {};
    // For frames: added to the result of embed_source(). Only for models that do not begin with a
    // post-norm.
    Positions frame_positions = Positions::none();
    std::optional<OutputHead> output_head = {};
  };
  // Loads the layers of both sides, of each scope.
  Seq2Seq(const ModelConfig& config, const Build& build, Parts parts, const Weights& encoder,
          const SideOptions& encoder_side, const Weights& decoder, const SideOptions& decoder_side);

  const ModelConfig& config() const override { return config_; }
  KvCacheSpec kv_cache_spec() const override;
  StepLayout step_layout() const override;
  Tensor encode(const StepTensors& in) override;
  void write_cross_kv(const StepTensors& in, const Tensor& encoder_states, KvCache& cache) override;
  Tensor decode(const StepTensors& in, KvCache& cache) override;
  Tensor compute_logits(const Tensor& hidden) override { return head().forward(hidden); }
  bool takes_best(int64_t rows) const override {
    return parts_.head && parts_.head->takes_best(rows);
  }
  void take_best(const Tensor& hidden, const ops::LinearBestArgs& args) override {
    head().take_best(hidden, args);
  }
  Tensor compute_logits_shard(const Tensor& hidden) override {
    return head().forward_shard(hidden);
  }
  bool has_language_head() const override { return parts_.head.has_value(); }
  bool has_output_head() const override { return parts_.output_head.has_value(); }
  Tensor run_output_head(const Tensor& hidden) override;

 protected:
  // The input of the encoder's first layer, [encoder tokens, d_model]: by default the embeddings of
  // ids. A family that reads frames makes rows of them (in.encoder_frames, in.frame_start_loc).
  virtual Tensor embed_source(const StepTensors& in);

 private:
  const ParallelLMHead& head() const {
    TANDEM_CHECK(parts_.head.has_value(), "the model has no language model's head");
    return *parts_.head;
  }
  Tensor run_encoder(const StepTensors& in);
  Tensor run_decoder(const StepTensors& in, KvCache& cache);
  // The angles of each table at these positions.
  std::vector<Tensor> angles(const std::vector<Tensor>& frequencies, const Tensor& positions);

  ModelConfig config_;
  Build build_;
  Parts parts_;
  Heads encoder_heads_, decoder_heads_;
  std::vector<EncoderLayer> encoder_layers_;
  std::vector<DecoderLayer> decoder_layers_;
  std::optional<Norm> encoder_norm_, decoder_norm_;
  std::vector<Tensor> encoder_frequencies_, decoder_frequencies_;
};

}  // namespace tandem
