// The attention layers of encoder/decoder models. They own the KV caching: a model file hands
// states in and gets states back.
#pragma once

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

// Names of the projections inside a scope; families differ.
struct AttentionNames {
  const char* q = "q_proj";
  const char* k = "k_proj";
  const char* v = "v_proj";
  const char* out = "out_proj";
};

class EncoderAttention {
 public:
  EncoderAttention(const Weights& w, const Build& b, int64_t d_model, int heads, int head_dim,
                   float scale, const AttentionNames& names = {});
  Tensor forward(const Tensor& x, const StepTensors& in) const;

 private:
  Build build_;
  Heads heads_;
  float scale_;
  QKVParallelLinear qkv_;
  RowParallelLinear out_;
};

class DecoderSelfAttention {
 public:
  DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model, int heads, int head_dim,
                       float scale, const AttentionNames& names = {});
  Tensor forward(const Tensor& x, const StepTensors& in, const KvPages& self_pages) const;

 private:
  Build build_;
  Heads heads_;
  float scale_;
  QKVParallelLinear qkv_;
  RowParallelLinear out_;
};

class CrossAttention {
 public:
  CrossAttention(const Weights& w, const Build& b, int64_t d_model, int heads, int head_dim,
                 float scale, const AttentionNames& names = {});
  // Once per request: keys and values of the encoder's output.
  void write_kv(const Tensor& encoder_states, const StepTensors& in,
                const KvPages& cross_pages) const;
  Tensor forward(const Tensor& x, const StepTensors& in, const KvPages& cross_pages) const;

 private:
  Build build_;
  Heads heads_;
  float scale_;
  CrossAttentionQKVParallelLinear qkv_;
  RowParallelLinear out_;
};

// fc2(act(fc1 x)).
class FeedForward {
 public:
  FeedForward(const Weights& fc1, const Weights& fc2, const Build& b, int64_t d_model,
              int64_t ffn_dim, Activation activation)
      : fc1_(fc1, b, d_model, ffn_dim, activation),
        fc2_(fc2, b, ffn_dim, d_model, shard_range(ffn_dim, b.comm.rank(), b.comm.size())) {}
  Tensor forward(const Tensor& x) const { return fc2_.forward(fc1_.forward(x)); }

 private:
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace tandem
