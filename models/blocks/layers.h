// The layers of encoders and decoders: sublayers with a norm behind each (post-norm) or before it
// (pre-norm).
#pragma once

#include <optional>
#include <variant>

#include "models/blocks/attention.h"
#include "models/blocks/feed_forward.h"
#include "models/blocks/global_attention.h"
#include "parallel/layers/layers.h"

namespace tandem {

enum class NormPlace : uint8_t { kPost, kPre };

// What goes from sublayer to sublayer: `sum + update`, [T, d_model]. Pre-norm leaves the addition
// to the next norm, which does both at once.
struct Residual {
  Tensor sum;
  Tensor update = {};  // empty: nothing is to be added
};

// The state with everything added, normed: what comes behind the last layer.
Tensor normed(const Norm& norm, const Residual& state);

// How layers are built; names are of scopes in the layer's.
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
  };

  NormPlace norms = NormPlace::kPost;
  int64_t d_model = 0;
  AttentionOptions self_attention, cross_attention;             // the latter of decoders
  std::optional<GlobalAttentionOptions> global_attention = {};  // of encoders
  FeedForwardOptions feed_forward;
  NormKind norm_kind = NormKind::kLayer;
  float eps = 1e-5f;  // of the norms
  Names names;
};

class EncoderLayer {
 public:
  EncoderLayer(const Weights& w, const Build& b, const LayerOptions& o);
  Residual forward(Residual state, const StepTensors& in) const;

 private:
  using Attention = std::variant<EncoderAttention, GlobalAttention>;
  static Attention attention(const Weights& w, const Build& b, const LayerOptions& o);

  NormPlace place_;
  Attention attention_;
  Norm attention_norm_;
  FeedForward feed_forward_;
  Norm final_norm_;
};

class DecoderLayer {
 public:
  DecoderLayer(const Weights& w, const Build& b, const LayerOptions& o);
  Residual forward(Residual state, const StepTensors& in, const KvPages& pages) const;
  // Once per request: this layer's cross-attention keys and values of the encoder's output.
  void write_cross_kv(const Tensor& encoder_states, const StepTensors& in,
                      const KvPages& pages) const {
    cross_attention_.write_kv(encoder_states, in, pages);
  }

 private:
  NormPlace place_;
  DecoderSelfAttention self_attention_;
  Norm self_norm_;
  CrossAttention cross_attention_;
  Norm cross_norm_;
  FeedForward feed_forward_;
  Norm final_norm_;
};

}  // namespace tandem
