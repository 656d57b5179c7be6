// An encoder/decoder model of parts: embed, layers, logits. A family's file makes one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/blocks/decoder_parts.h"
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
// The embeddings of both sides, each made when it is asked for. Usually they are one table, which
// is then kept once, also converted to f32.
class TokenEmbeddings {
 public:
  // Scaled if the configuration says so.
  TokenEmbeddings(const TokenTables& tables, const Build& b, const ModelConfig& c)
      : TokenEmbeddings(tables.encoder, tables.decoder, b, embedding_scale(c), embedding_scale(c)) {
  }
  // Two tables may have two scales.
  TokenEmbeddings(const HostTensor& encoder, const HostTensor& decoder, const Build& b,
                  float encoder_scale, float decoder_scale);
  const VocabParallelEmbedding& encoder();
  const VocabParallelEmbedding& decoder();

 private:
  using Made = std::optional<VocabParallelEmbedding>;
  const VocabParallelEmbedding& made(Made& own, const Made& other, const HostTensor& table,
                                     float scale);

  HostTensor encoder_table_, decoder_table_;
  Build build_;
  float encoder_scale_, decoder_scale_;
  Made encoder_, decoder_;
};
// final_logits_bias [1, vocab_size] of the root; empty where there is none.
Tensor final_logits_bias(const Weights& root, const ModelConfig& c);

class Seq2Seq : public Model {
 public:
  // What stands before and behind the layers. Each part is made within the constructor, on the
  // ranks that have the layer beside it. An empty function: the model has no such part.
  struct Parts {
    std::function<Embeddings()> encoder_embeddings;  // empty: embed_source() is the family's own
    std::function<Embeddings()> decoder_embeddings;
    std::function<ParallelLMHead()> head;  // empty: a class without a language model's head
    // Of both sides; of models that do not begin with a post-norm.
    std::function<std::optional<OwnRow>()> own_row = {};
    // For frames: added to the result of embed_source(). Only for models that do not begin with a
    // post-norm.
    std::function<Positions()> frame_positions = {};
    std::function<std::optional<OutputHead>()> output_head = {};
    std::function<CarriedEmbeddings()> carried = {};  // of an encoder with BlockAttention
    // What HuggingFace's class calls the modules that adapters may change: of each side, and of the
    // model.
    const char* words = "embed_tokens";
    const char* head_name = "lm_head";
    // Of a decoder with StreamAttention, whose own embeddings then have no norm.
    std::function<StreamEmbeddings()> streams = {};
  };
  // Loads this rank's layers of both sides (Build), of each scope.
  Seq2Seq(const ModelConfig& config, const Build& build, Parts parts, const Weights& encoder,
          const SideOptions& encoder_side, const Weights& decoder, const SideOptions& decoder_side);

  const ModelConfig& config() const override { return config_; }
  KvCacheSpec kv_cache_spec() const override;
  StepLayout step_layout() const override;
  LayerCounts layer_counts() const override { return {num_encoder_layers_, num_decoder_layers_}; }
  Tensor encode(const StepTensors& in) override;
  void write_cross_kv(const StepTensors& in, const Tensor& encoder_states, KvCache& cache) override;
  Tensor decode(const StepTensors& in, KvCache& cache) override;
  StageState encode_stage(const StepTensors& in, StageState state) override;
  StageState decode_stage(const StepTensors& in, StageState state, KvCache& cache) override;
  Tensor compute_logits(const Tensor& hidden) override { return head().forward(hidden); }
  bool takes_best(int64_t rows) const override { return head_ && head_->takes_best(rows); }
  void take_best(const Tensor& hidden, const ops::LinearBestArgs& args) override {
    head().take_best(hidden, args);
  }
  Tensor compute_logits_shard(const Tensor& hidden) override {
    return head().forward_shard(hidden);
  }
  bool has_language_head() const override { return head_.has_value(); }
  bool has_output_head() const override { return output_head_.has_value(); }
  bool gives_cross_weights() const override { return gives_cross_weights_; }
  bool may_record(const AttentionMetadata& step) const override {
    return streams_.ngram == 0 || !has_whole_prompts(step);
  }
  Tensor run_output_head(const Tensor& hidden) override;

 protected:
  // The input of the encoder's first layer, [encoder tokens, d_model]: by default the embeddings of
  // ids. A family that reads frames makes rows of them (in.encoder_frames, in.frame_start_loc).
  // Called on ranks that have that layer (Build::encoder_layers).
  virtual Tensor embed_source(const StepTensors& in);

 private:
  const ParallelLMHead& head() const {
    TANDEM_CHECK(head_.has_value(), "the model has no language model's head");
    return *head_;
  }
  StepTensors prepared(const StepTensors& in);
  Residual run_encoder(const StepTensors& in, StageState state);
  Residual run_decoder(const StepTensors& in, Residual x, KvCache& cache);
  // The states before a side's first layer.
  Residual begin_encoder(const StepTensors& in);
  Residual begin_decoder(const StepTensors& in);
  // With what a step's decoder layers share, made once.
  StepTensors prepared_decoder(const StepTensors& in, int block_size);
  // The angles of each table at these positions.
  std::vector<Tensor> angles(const std::vector<Tensor>& frequencies, const Tensor& positions);

  ModelConfig config_;
  Build build_;
  int num_encoder_layers_, num_decoder_layers_;  // of the model
  bool gives_cross_weights_;
  std::optional<Embeddings> encoder_embeddings_, decoder_embeddings_;
  std::optional<OwnRow> own_row_;
  Positions frame_positions_ = Positions::none();
  std::optional<ParallelLMHead> head_;
  std::optional<OutputHead> output_head_;
  Heads encoder_heads_, decoder_heads_;
  std::vector<EncoderLayer> encoder_layers_;
  std::vector<DecoderLayer> decoder_layers_;
  std::optional<DecoderParts> decoder_parts_;  // of a whole decoder on a device
  std::vector<CrossWriter> cross_writers_;     // in their place (Build::writes_cross)
  std::optional<Norm> encoder_norm_, decoder_norm_;
  // Of the encoder's layers, which share lists of a step; 0: they have none.
  int summary_block_;
  CarriedVectors carried_;
  SparseBlocks sparse_;
  std::optional<CarriedEmbeddings> carried_embeddings_;
  StreamOptions streams_;  // of the decoder's layers; ngram 0: they have none
  std::optional<StreamEmbeddings> stream_embeddings_;
  std::vector<Tensor> encoder_frequencies_, decoder_frequencies_;
};

}  // namespace tandem
