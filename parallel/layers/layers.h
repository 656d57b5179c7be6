// The layers that models are built from. Building one loads this rank's shard; forward() runs it.
// With one rank they are plain layers. Used from the worker's thread.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/decoder_ops.h"
#include "kernels/ops.h"
#include "parallel/communicators/communicator.h"
#include "parallel/layers/linear_adapters.h"
#include "parallel/layers/norms.h"
#include "parallel/layers/table_adapters.h"
#include "parallel/layers/weights.h"
#include "parallel/shard.h"

namespace tandem {

// A layer's product for ops::decoder_step; absent where adapters can change it.
using StepProduct = std::optional<ops::StepProduct>;
inline StepProduct step_product_of(const PackedWeight& weight, const Tensor& bias,
                                   const std::shared_ptr<LinearAdapters>& adapters) {
  if (adapters != nullptr) return std::nullopt;
  return ops::StepProduct{weight, bias};
}

// Whether a linear layer's file has a bias.
enum class Bias : uint8_t { kRequired, kOptional, kNone };

// y = act(W x + b), output features sharded: rank r computes shard_range(out, r) of y.
class ColumnParallelLinear {
 public:
  ColumnParallelLinear(const Weights& w, const Build& b, int64_t in, int64_t out,
                       Activation activation = Activation::kNone, Bias bias = Bias::kRequired);
  Tensor forward(NormedRows& x) const;  // [T, in] → [T, out of this rank]
  Tensor forward(const Tensor& x) const {
    NormedRows rows(x);
    return forward(rows);
  }
  StepProduct step_product() const { return step_product_of(weight_, bias_, adapters_); }

 private:
  Build build_;
  PackedWeight weight_;
  Tensor bias_;
  Activation activation_;
  std::shared_ptr<LinearAdapters> adapters_;  // null: none can change it
};

// y = act(W_gate x + b_gate) * (W_up x + b_up), in one product; sharded as above.
class GatedParallelLinear {
 public:
  GatedParallelLinear(const Weights& gate, const Weights& up, const Build& b, int64_t in,
                      int64_t out, Activation activation, Bias bias = Bias::kRequired);
  Tensor forward(NormedRows& x) const;  // [T, in] → [T, out of this rank], strided
  Tensor forward(const Tensor& x) const {
    NormedRows rows(x);
    return forward(rows);
  }
  StepProduct step_product() const { return step_product_of(weight_, bias_, adapters_); }

 private:
  Build build_;
  int64_t width_;  // output features of this rank
  PackedWeight weight_;
  Tensor bias_;
  Activation activation_;
  std::shared_ptr<LinearAdapters> adapters_;
};

// y = W x + b, input features sharded: x holds `part` of the input; the parts are summed over
// ranks. In int8 and int4 each rank has its own scales for its part of a row of x and of W. They
// are finer than one rank's, so the sums differ by roundings. (Layers with sharded outputs have one
// rank's scales.)
class RowParallelLinear {
 public:
  RowParallelLinear(const Weights& w, const Build& b, int64_t in, int64_t out, Range part,
                    Bias bias = Bias::kRequired);
  Tensor forward(const Tensor& x) const;  // [T, part.size()] → [T, out]
  // forward() in two steps: this rank's part of the sum, for any rows; the sum over all ranks.
  void write_part(const Tensor& x, const Tensor& out) const;
  void sum_parts(const Tensor& out) const { build_.comm.all_reduce(out); }
  StepProduct step_product() const { return step_product_of(weight_, bias_, adapters_); }

 private:
  Build build_;
  PackedWeight weight_;
  Tensor bias_;  // on rank 0 only, so that it is added once
  std::shared_ptr<LinearAdapters> adapters_;
};

// [Q K V] of this rank's heads (shard_heads()) in one product, for self-attention. kv_heads: heads
// of keys and values; 0: as many as of queries.
class QKVParallelLinear {
 public:
  QKVParallelLinear(const Weights& q, const Weights& k, const Weights& v, const Build& b,
                    int64_t in, int heads, int head_dim, Bias bias = Bias::kRequired,
                    int kv_heads = 0);
  struct Output {
    Tensor q, k, v;
  };  // [T, heads of this rank * head_dim] each, strided
  Output forward(NormedRows& x) const;
  Output forward(const Tensor& x) const {
    NormedRows rows(x);
    return forward(rows);
  }
  // Of a row of zeros: the biases, [1, …] each. Resident; to be called while the layer is loaded.
  Output of_zeros() const;
  StepProduct step_product() const { return step_product_of(weight_, bias_, adapters_); }

 private:
  Output parts_of(const Tensor& y) const;

  Build build_;
  int64_t q_width_, kv_width_;  // heads of this rank * head_dim
  PackedWeight weight_;
  Tensor bias_;
  std::shared_ptr<LinearAdapters> adapters_;
};

// Q from the decoder's state in every step, K and V from the encoder's output once per request.
// kv_heads as above. kv_in: features of the encoder's output; 0: `in`.
class CrossAttentionQKVParallelLinear {
 public:
  CrossAttentionQKVParallelLinear(const Weights& q, const Weights& k, const Weights& v,
                                  const Build& b, int64_t in, int heads, int head_dim,
                                  Bias bias = Bias::kRequired, int kv_heads = 0, int64_t kv_in = 0);
  Tensor forward_q(NormedRows& decoder_states) const;
  Tensor forward_q(const Tensor& decoder_states) const {
    NormedRows rows(decoder_states);
    return forward_q(rows);
  }
  struct KeyValue {
    Tensor k, v;
  };
  KeyValue forward_kv(const Tensor& encoder_states) const;
  StepProduct step_product_of_q() const { return step_product_of(q_weight_, q_bias_, q_adapters_); }

 private:
  Build build_;
  int64_t kv_width_;
  PackedWeight q_weight_, kv_weight_;
  Tensor q_bias_, kv_bias_;
  std::shared_ptr<LinearAdapters> q_adapters_, kv_adapters_;
};

// Token (and position) embeddings, the vocabulary sharded over ranks. The table stays in the mapped
// file if its type allows.
class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(const HostTensor& tokens, const Build& b, float scale);
  // From now on adapters may change it, as the module of that scope. (Copies before stay as they
  // are.)
  void adapt(const std::string& module);
  // [T, d] = scale * tokens[ids] + positions[position_ids + offset]; `positions` may be empty. With
  // a norm: normed.
  Tensor forward(const Tensor& ids, const Tensor& position_ids, const Tensor& positions,
                 int position_offset, const Norm* norm = nullptr) const;

 private:
  Build build_;
  std::shared_ptr<const void> keep_alive_;
  Tensor table_;
  int64_t vocabulary_;
  Range ids_;
  float scale_;
  std::shared_ptr<TableAdapters> adapters_;
};

// Logits = scale W x + b over a sharded vocabulary. The scale becomes a part of W at load. With a
// soft cap they are cap * tanh(logits / cap).
class ParallelLMHead {
 public:
  ParallelLMHead(const HostTensor& weight, const Tensor& bias, const Build& b, float scale = 1.0f,
                 float soft_cap = 0.0f);
  // From now on adapters may change it, as the module of that scope.
  void adapt(const std::string& module);
  Tensor forward(const Tensor& x) const;        // [R, d] → [R, vocabulary], gathered on all ranks
  Tensor forward_shard(const Tensor& x) const;  // [R, d] → [R, ids of this rank]
  // Whether ops::linear_best takes that many rows, so that no logits are stored. Never with several
  // ranks on CPUs. On devices all ranks ask, and the first answer waits for all of them.
  // take_best() runs it on rows of x; `args` come without weight, x, bias, soft cap and first id.
  // All ranks get the same.
  bool takes_best(int64_t rows) const;
  void take_best(const Tensor& x, ops::LinearBestArgs args) const;

 private:
  int32_t most_best_rows(const DeviceBackend& backend) const;

  Build build_;
  int64_t vocabulary_;
  Range ids_;
  PackedWeight weight_;
  Tensor bias_;
  float scale_, soft_cap_;
  mutable std::optional<int32_t> most_best_rows_;
  std::shared_ptr<LinearAdapters> adapters_;
};

// [R, ids of this rank] → [R, vocabulary] on all ranks; the shards are shard_range's.
Tensor gather_vocabulary(const Build& b, const Tensor& shard, int64_t vocabulary);
// The same, but row rows[i] on rank owners[i] only; returns this rank's, in the order of i.
Tensor gather_vocabulary_of_rows(Communicator& comm, const Tensor& shard, int64_t vocabulary,
                                 std::span<const int64_t> rows, std::span<const int> owners);

// A table of float rows as a Tensor: borrowed from the mapping if it is aligned f32 or bf16, else
// converted to f32.
Tensor table_of(const HostTensor& t);

}  // namespace tandem
