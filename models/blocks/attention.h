// The attention layers of encoder/decoder models. They own the KV caching: a layer hands states in
// and gets states back.
#pragma once

#include <cstdint>

#include "models/model.h"
#include "models/step/step_tensors.h"
#include "parallel/layers/layers.h"

namespace tandem {

// Heads of one layer: all of them, and those of this rank.
struct Heads {
  Heads(const Build& b, int num_heads, int head_dim)
      : total(num_heads),
        head_dim(head_dim),
        local(shard_range(num_heads, b.comm.rank(), b.comm.size())) {}
  int total;
  int head_dim;
  Range local;
  int count() const { return static_cast<int>(local.size()); }
  Range features() const { return local * head_dim; }
};

struct AttentionOptions {
  // Names of the projections inside a scope; families differ.
  struct Names {
    const char* q = "q_proj";
    const char* k = "k_proj";
    const char* v = "v_proj";
    const char* out = "out_proj";
  };

  int heads = 0;
  int head_dim = 0;
  float scale = 1.0f;           // of the scores
  int kv_heads = 0;             // 0: as many as heads
  int window = 0;               // keys that a query sees; 0: all
  float soft_cap = 0.0f;        // of the scores; 0: none
  bool rotary = false;          // queries and keys turn with their positions
  Bias bias = Bias::kRequired;  // of the projections
  // Added to the scores, by distance; of this rank's heads. Not of cross-attention.
  ops::PositionBias position_bias = {};
  Names names;

  // Scores scaled by 1 / sqrt(head_dim).
  static AttentionOptions scaled(int heads, int head_dim);
};

// What the three types of attention share. Throws InputError (kNotSupported) for options that no op
// computes yet: fewer heads of keys and values, a window, a soft cap, rotary positions.
class AttentionLayer {
 protected:
  AttentionLayer(const Weights& w, const Build& b, int64_t d_model,
                 const AttentionOptions& options);
  // Over pages, whose keys and values are there.
  Tensor paged(const Tensor& q, const Tensor& start_loc, const KvPages& pages,
               const StepTensors::Pages& table, bool causal,
               const ops::DeviceAttentionPlan* plan) const;

  Build build_;
  AttentionOptions options_;
  Heads heads_;
  RowParallelLinear out_;
};

class EncoderAttention : AttentionLayer {
 public:
  EncoderAttention(const Weights& w, const Build& b, int64_t d_model,
                   const AttentionOptions& options);
  Tensor forward(const Tensor& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
};

class DecoderSelfAttention : AttentionLayer {
 public:
  DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                       const AttentionOptions& options);
  Tensor forward(const Tensor& x, const StepTensors& in, const KvPages& self_pages) const;

 private:
  QKVParallelLinear qkv_;
};

class CrossAttention : AttentionLayer {
 public:
  CrossAttention(const Weights& w, const Build& b, int64_t d_model,
                 const AttentionOptions& options);
  // Once per request: keys and values of the encoder's output.
  void write_kv(const Tensor& encoder_states, const StepTensors& in,
                const KvPages& cross_pages) const;
  Tensor forward(const Tensor& x, const StepTensors& in, const KvPages& cross_pages) const;

 private:
  CrossAttentionQKVParallelLinear qkv_;
};

}  // namespace tandem
