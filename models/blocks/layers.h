// The layers of encoders and decoders: sublayers with a norm behind each (post-norm), before it
// (pre-norm), or both.
#pragma once

#include <optional>
#include <variant>

#include "models/blocks/attention/attention.h"
#include "models/blocks/attention/block_attention.h"
#include "models/blocks/attention/global_attention.h"
#include "models/blocks/attention/sparse_attention.h"
#include "models/blocks/attention/stream_attention.h"
#include "models/blocks/attention/summary_attention.h"
#include "models/blocks/experts.h"
#include "models/blocks/feed_forward.h"
#include "models/blocks/pictures/box_attention.h"
#include "models/blocks/pictures/picture_attention.h"
#include "parallel/layers/layers.h"

namespace tandem {

enum class NormPlace : uint8_t {
  kPost,  // norm(x + f(x))
  kPre,   // x + f(norm(x))
  kBoth,  // x + behind(f(norm(x)))
};

// The state between sublayers: `sum + update`, [T, d_model], or with post-norm the norm of that.
// The addition and the norm wait for the reader, which may do both at once.
struct Residual {
  Tensor sum;
  Tensor update = {};          // empty: nothing is to be added
  const Norm* norm = nullptr;  // of the layer that has computed `update`; null: none

  // The finished state, with post-norm.
  Tensor made() const;
};

// The state with everything added, normed: after the last layer.
Tensor normed(const Norm& norm, const Residual& state);

ops::StepNorm step_norm(const Norm& norm);

// How layers are built. Names are scopes within the layer's.
struct LayerOptions {
  struct Names {
    const char* self_attention = "self_attn";
    const char* self_norm = "self_attn_layer_norm";
    const char* cross_attention = "encoder_attn";
    const char* cross_norm = "encoder_attn_layer_norm";
    const char* fc1 = "fc1";
    const char* gate = "gate";  // where there is one
    const char* fc2 = "fc2";
    const char* final_norm = "final_layer_norm";
    // The second norms of kBoth.
    const char* self_norm_behind = "";
    const char* cross_norm_behind = "";
    const char* final_norm_behind = "";
  };

  NormPlace norms = NormPlace::kPost;
  int64_t d_model = 0;
  AttentionOptions self_attention, cross_attention;  // the latter of decoders
  bool merged_attention = false;  // of decoders: one softmax, of self_attention's projections
  // Of encoders, instead of attention to all or a window.
  std::optional<GlobalAttentionOptions> global_attention = {};
  std::optional<PictureAttentionOptions> picture_attention = {};
  std::optional<SummaryAttentionOptions> summary_attention = {};
  std::optional<BlockAttentionOptions> block_attention = {};
  std::optional<SparseBlocks> sparse_attention = {};
  std::optional<BoxBiases> box_attention = {};
  std::optional<StreamOptions> streams = {};  // of decoders: self-attention's
  FeedForwardOptions feed_forward;
  std::optional<ExpertsOptions> experts = {};  // instead of one feed-forward layer
  NormKind norm_kind = NormKind::kLayer;
  float eps = 1e-5f;  // of the norms
  Names names;
};

// The norm or norms of one sublayer.
class SublayerNorm {
 public:
  // `behind`: of kBoth.
  SublayerNorm(const Weights& w, const Build& b, const LayerOptions& o, const char* name,
               const char* behind);
  // The next state, with the sublayer's f(NormedRows& x).
  template <class Sublayer>
  Residual apply(Residual state, const Sublayer& f) const;
  NormPlace place() const { return place_; }
  const Norm& norm() const { return norm_; }

 private:
  NormPlace place_;
  Norm norm_;
  std::optional<Norm> behind_;
};

// One feed-forward layer, or experts.
using FeedForwards = std::variant<FeedForward, Experts>;

class EncoderLayer {
 public:
  EncoderLayer(const Weights& w, const Build& b, const LayerOptions& o);
  Residual forward(Residual state, const StepTensors& in) const;

 private:
  using Attention = std::variant<EncoderAttention, GlobalAttention, SummaryAttention,
                                 BlockAttention, SparseAttention, PictureAttention, BoxAttention>;
  static Attention make_attention(const Weights& layer, const Build& b, const LayerOptions& o);
  // With many rows a device's product gains nothing by computing their norm.
  void make_on_device(NormedRows& x) const {
    if (!on_cpu_) x.rows();
  }

  bool on_cpu_;
  Attention attention_;
  SublayerNorm attention_norm_;
  FeedForwards feed_forward_;
  SublayerNorm final_norm_;
};

class DecoderLayer {
 public:
  DecoderLayer(const Weights& w, const Build& b, const LayerOptions& o);
  Residual forward(Residual state, const StepTensors& in, const KvPages& pages) const;
  // Once per request: this layer's cross-attention keys and values of the encoder's output.
  void write_cross_kv(const Tensor& encoder_states, const StepTensors& in,
                      const KvPages& pages) const;
  // The layer for ops::decoder_step; false: it has what the op has not.
  bool describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const;

 private:
  using SelfAttention = std::variant<DecoderSelfAttention, StreamAttention>;
  struct TwoAttentions {
    SelfAttention self;
    SublayerNorm self_norm;
    CrossAttention cross;
    SublayerNorm cross_norm;
  };
  struct OneAttention {
    MergedAttention merged;
    SublayerNorm norm;
  };
  using Attention = std::variant<TwoAttentions, OneAttention>;
  static Attention make_attention(const Weights& w, const Build& b, const LayerOptions& o);

  Attention attention_;
  FeedForwards feed_forward_;
  SublayerNorm final_norm_;
};

// Of a DecoderLayer, what write_cross_kv() takes (Build::writes_cross).
class CrossWriter {
 public:
  CrossWriter(const Weights& w, const Build& b, const LayerOptions& o);
  void write_cross_kv(const Tensor& encoder_states, const StepTensors& in,
                      const KvPages& pages) const;

 private:
  using Attention = std::variant<CrossAttention, MergedAttention>;
  static Attention make_attention(const Weights& w, const Build& b, const LayerOptions& o);

  Attention attention_;
};

}  // namespace tandem
