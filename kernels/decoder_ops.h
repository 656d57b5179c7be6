// The op that runs all layers of a decoder at once, for steps of few rows. Conventions:
// kernels/ops.h.
#pragma once

#include <optional>
#include <span>

#include "kernels/ops.h"

namespace tandem::ops {

// Of rows of d_model features.
struct StepNorm {
  Tensor weight;  // [d] f32
  Tensor bias;    // [d] f32; empty if `rms`
  float eps = 1e-5f;
  bool rms = false;
};

// y = W x + bias.
struct StepProduct {
  PackedWeight weight;
  Tensor bias;  // of `linear`, or empty
};

// A layer: self-attention, cross-attention and feed-forward, each with its norm. Heads of keys are
// those of queries.
struct DecoderLayerParts {
  StepNorm self_norm, cross_norm, final_norm;
  StepProduct qkv;       // [q k v]
  StepProduct self_out;  // of the attention's result
  StepProduct cross_q, cross_out;
  StepProduct first, second;  // of the feed-forward; gated: `first` is [gate up]
  PositionBias bias = {};     // of self-attention
};

// What all layers have in common.
struct DecoderShape {
  // norm(x + f(x)), else x + f(norm(x)).
  bool norms_behind = true;
  int num_heads = 0;
  int head_dim = 0;
  float self_scale = 1.0f, cross_scale = 1.0f;
  Activation activation = Activation::kNone;
  bool gated = false;  // second(activation(gate) * up), else second(activation(first))
  bool operator==(const DecoderShape&) const = default;
};

// The keys of one kind of attention (PagedAttentionArgs).
struct StepKeys {
  Tensor qo_indptr, indptr, page_indices, last_page_len;  // a device has the indices only
  const DeviceAttentionPlan* plan = nullptr;              // null on the CPU
};

// out = the rows behind the last layer, all that was added up and normed: by the last layer's norm
// if norms are behind, else by `last_norm`. Writes the keys and values of the rows' tokens to
// `pages`. `shape`, `layers`, `pages` and the plans are borrowed for the call.
struct DecoderStepArgs {
  DecoderShape shape;
  std::span<const DecoderLayerParts> layers;  // at least one
  std::span<const KvPages> pages;             // of each layer
  Tensor x;                                   // [T, d], before the first layer
  Tensor update = {};                         // [T, d], to be added to x; norms_behind: empty
  std::optional<StepNorm> last_norm = {};     // exactly if norms are not behind
  Tensor slot_mapping;                        // [T] i32, as of write_kv
  StepKeys self, cross;
  Tensor out;  // [T, d]
};
// REQUIRES: on a device, takes_decoder_step().
void decoder_step(Context& ctx, const DecoderStepArgs& args);
// Whether the context's device has a kernel for this step and should use it. Never on the CPU, nor
// where a backend of attention was chosen (kernels/backends/attention_backend.h).
bool takes_decoder_step(const Context& ctx, const DecoderStepArgs& args);

// The same by the other ops, one after the other, on any device: what the CPU does, and what tests
// compare kernels with.
void compose_decoder_step(Context& ctx, const DecoderStepArgs& args);

}  // namespace tandem::ops
