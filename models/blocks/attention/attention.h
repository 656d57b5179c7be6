// The attention layers of encoder/decoder models. They own the KV caching: callers pass states in
// and get states back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/model.h"
#include "models/step/step_tensors.h"
#include "parallel/layers/layers.h"

namespace tandem {

// This rank's heads of one layer. num_kv_heads: heads of keys and values; 0: as many as of queries.
struct Heads {
  Heads(const Build& b, int num_heads, int head_dim, int num_kv_heads = 0)
      : head_dim(head_dim),
        local(shard_heads(num_heads, num_kv_heads > 0 ? num_kv_heads : num_heads, b.comm.rank(),
                          b.comm.size())) {}
  int head_dim;
  HeadShard local;
  int count() const { return static_cast<int>(local.queries.size()); }
  int kv_count() const { return static_cast<int>(local.keys.size()); }
  Range features() const { return local.queries * head_dim; }
};

struct AttentionOptions {
  // Names of the projections inside a scope; families differ.
  struct Names {
    const char* q = "q_proj";
    const char* k = "k_proj";
    const char* v = "v_proj";
    const char* out = "out_proj";
    // Norms of each head of queries and of keys; nullptr: none.
    const char* q_norm = nullptr;
    const char* k_norm = nullptr;
  };

  int heads = 0;
  int head_dim = 0;
  float scale = 1.0f;           // of the scores
  int kv_heads = 0;             // 0: as many as heads
  int64_t kv_width = 0;         // features that keys and values are made of; 0: d_model
  float soft_cap = 0.0f;        // of the scores; 0: none
  ops::Window window = {};      // of self-attention; decoders look back only
  Bias bias = Bias::kRequired;  // of the projections
  // The index of the side's frequencies (SideOptions) by which queries and keys of self-attention
  // rotate; absent: no rotation.
  std::optional<int> rotary = {};
  bool rotary_interleaved = false;
  NormKind head_norms = NormKind::kRms;
  float eps = 1e-6f;  // of the norms of heads and summaries
  // Added to the scores, by distance; of this rank's heads. Not of cross-attention.
  ops::PositionBias position_bias = {};
  int layer = 0;  // its number on its side
  Names names;

  // Scores scaled by 1 / sqrt(head_dim).
  static AttentionOptions scaled(int heads, int head_dim);
};

// The frequencies of rotary positions, [ceil(dims / 2)] f32: theta^(-2 i / dims) / factor for pair
// i of `dims` values, in HuggingFace's float arithmetic.
Tensor rotary_frequencies(int dims, float theta, float factor = 1.0f);

// Shared by the types of attention.
class AttentionLayer {
 protected:
  AttentionLayer(const Weights& w, const Build& b, int64_t d_model,
                 const AttentionOptions& options);
  // Norms the heads of queries and keys in place, if there are norms, then rotates the queries.
  // Returns the rotation of the keys.
  ops::Rotary ready(const Tensor& q, const Tensor& k, const std::vector<Tensor>& angles) const;
  void ready_cross_queries(const Tensor& q) const;
  void write_cross(const CrossAttentionQKVParallelLinear& qkv, const Tensor& encoder_states,
                   const StepTensors& in, const KvPages& pages) const;
  // The arguments of attention among an encoder's tokens, with a new `out`. Window, caps and biases
  // are the options'.
  ops::RaggedAttentionArgs ragged(const Tensor& q, const Tensor& k, const Tensor& v,
                                  const StepTensors& in) const;
  // Attention over the sequence's own pages. Writes this step's keys and values to them first,
  // normed and rotated. log_sums: see ops::PagedAttentionArgs.
  Tensor over_self(const Tensor& q, const Tensor& k, const Tensor& v, const StepTensors& in,
                   const KvPages& pages, const Tensor& log_sums = {}) const;
  // Attention over the encoder's pages, which hold its keys and values already. Rows of streams
  // are queries of their tokens' sequences.
  Tensor over_cross(const Tensor& q, const StepTensors& in, const KvPages& pages,
                    const Tensor& log_sums = {}) const;
  // Whether there is nothing but projections and attention of the same heads of queries and keys.
  bool is_plain() const;
  // Writes this layer's part of in.cross_weights.
  void store_weights(const Tensor& q, const StepTensors& in, const KvPages& pages) const;

  Build build_;
  AttentionOptions options_;
  Heads heads_;
  RowParallelLinear out_;
  std::optional<Norm> q_norm_, k_norm_;

 private:
  // The arguments of both, with a new `out`.
  ops::PagedAttentionArgs paged(const Tensor& q, const KvPages& pages,
                                const StepTensors::Pages& table, const Tensor& log_sums) const;
};

class EncoderAttention : AttentionLayer {
 public:
  EncoderAttention(const Weights& w, const Build& b, int64_t d_model,
                   const AttentionOptions& options);
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
};

class DecoderSelfAttention : AttentionLayer {
 public:
  DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                       const AttentionOptions& options);
  Tensor forward(NormedRows& x, const StepTensors& in, const KvPages& self_pages) const;
  // Its part of a layer for ops::decoder_step; false: the op has no such.
  bool describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const;

 private:
  QKVParallelLinear qkv_;
};

class CrossAttention : AttentionLayer {
 public:
  CrossAttention(const Weights& w, const Build& b, int64_t d_model,
                 const AttentionOptions& options);
  // Once per request: keys and values of the encoder's output.
  void write_kv(const Tensor& encoder_states, const StepTensors& in,
                const KvPages& cross_pages) const {
    write_cross(qkv_, encoder_states, in, cross_pages);
  }
  Tensor forward(NormedRows& x, const StepTensors& in, const KvPages& cross_pages) const;
  bool describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const;

 private:
  CrossAttentionQKVParallelLinear qkv_;
};

// Self- and cross-attention of the same projections, with one softmax over the keys of both. Keys
// of the encoder's output have no rotation and no window.
class MergedAttention : AttentionLayer {
 public:
  MergedAttention(const Weights& w, const Build& b, int64_t d_model,
                  const AttentionOptions& options);
  // Once per request: keys and values of the encoder's output.
  void write_kv(const Tensor& encoder_states, const StepTensors& in,
                const KvPages& cross_pages) const {
    write_cross(qkv_, encoder_states, in, cross_pages);
  }
  Tensor forward(NormedRows& x, const StepTensors& in, const KvPages& pages) const;

 private:
  CrossAttentionQKVParallelLinear qkv_;
};

}  // namespace tandem
