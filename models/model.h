// The runtime's view of a model. One implementation per model file, made by the family (family.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/ops.h"
#include "models/config/config.h"
#include "models/config/limits.h"
#include "models/step/step_tensors.h"
#include "parallel/layers/layers.h"

namespace tandem {

// The type of keys and values beside linear layers of a compute type: int8 and int4 layers keep
// them in bf16.
constexpr DType kv_cache_dtype(DType compute) {
  return is_integer_compute(compute) ? DType::kBF16 : compute;
}

// The shape of one rank's part of the KV cache.
struct KvCacheSpec {
  int num_layers = 0;
  int num_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kF32;
  int first_head = 0;  // of the model's key and value heads
  // Bytes of one block over all layers: keys and values, and the scales of 8-bit ones.
  size_t block_bytes(int block_size) const {
    const std::optional<DType> scale = page_scale_type(dtype);
    const size_t row =
        static_cast<size_t>(head_dim) * size_of(dtype) + (scale ? size_of(*scale) : 0);
    return 2 * static_cast<size_t>(num_layers) * static_cast<size_t>(num_heads) *
           static_cast<size_t>(block_size) * row;
  }
};

// Pages of all layers. Owned by the model runner; block b of a sequence is block b in every layer.
struct KvCache {
  int block_size = 0;
  std::vector<KvPages> layers;
};

// A side's state between two of its layers, [T, d_model], which a rank of a pipeline hands to the
// next one: `sum`, and what is still to be added to it, or nothing.
struct StageState {
  Tensor sum, update = {};
};

// Layers that ranges (Build) count.
struct LayerCounts {
  int encoder = 0, decoder = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  // Positions, hidden size and memory, by which the runtime plans.
  virtual ModelLimits limits() const;
  virtual KvCacheSpec kv_cache_spec() const = 0;

  virtual StepLayout step_layout() const = 0;

  // Whether a decoder's step of one shape is the same work whatever is in it, so that a device may
  // record it.
  virtual bool may_record(const AttentionMetadata&) const { return true; }

  // Runs the encoder over the ids or frames of `in`, ragged. Returns the last hidden states
  // [encoder tokens, d_model]; for frames limits().frames gives their number. On a device this and
  // all other results are freed with the step.
  virtual Tensor encode(const StepTensors& in) = 0;
  // Computes every layer's cross-attention keys and values of encode()'s result, once per request,
  // and writes them to the slots of in.cross_slot_mapping.
  virtual void write_cross_kv(const StepTensors& in, const Tensor& encoder_states,
                              KvCache& cache) = 0;
  // Runs the decoder over the scheduled tokens; writes their keys and values; returns the last
  // hidden states [T, d_model].
  virtual Tensor decode(const StepTensors& in, KvCache& cache) = 0;
  // Of the whole model; a model without stages has none.
  virtual LayerCounts layer_counts() const { return {}; }
  // On a rank with a part of a side's layers (Build) they stand for encode() and decode(). `state`
  // is the result of the rank before, nothing on the rank with the first layer. On the rank with
  // the last layer the result's `sum` is the last hidden states; its `update` is empty.
  virtual StageState encode_stage(const StepTensors&, StageState) {
    TANDEM_CHECK(false, "the model has no stages");
    return {};
  }
  virtual StageState decode_stage(const StepTensors&, StageState, KvCache&) {
    TANDEM_CHECK(false, "the model has no stages");
    return {};
  }
  // Logits [rows, vocab_size] of decoder hidden states [rows, d_model], gathered on all ranks.
  virtual Tensor compute_logits(const Tensor& hidden) = 0;
  // Whether the best of that many rows comes without logits, and the call for it (ParallelLMHead).
  virtual bool takes_best(int64_t) const { return false; }
  virtual void take_best(const Tensor&, const ops::LinearBestArgs&) {
    TANDEM_CHECK(false, "the model takes no best");
  }
  // compute_logits() for this rank's ids only, shard_range(vocab_size, rank, ranks): [rows, ids].
  // Exchanges nothing; gather_vocabulary() (parallel/layers/layers.h) makes whole rows of it.
  virtual Tensor compute_logits_shard(const Tensor& hidden) = 0;

  // Without: the logits above are not to be asked for.
  virtual bool has_language_head() const { return true; }
  virtual bool has_output_head() const { return false; }
  // Whether decode() stores StepTensors::cross_weights.
  virtual bool gives_cross_weights() const { return false; }
  // Of a model of labels or spans: [rows, outputs] of decoder hidden states [rows, d_model]. No
  // rank waits for another, and all get the same; one is enough.
  virtual Tensor run_output_head(const Tensor&) {
    TANDEM_CHECK(false, "the model has no such head");
    return {};
  }
};

}  // namespace tandem
