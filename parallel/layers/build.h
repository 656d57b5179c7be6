// The context in which layers are built.
#pragma once

#include <limits>
#include <optional>

#include "kernels/core/context.h"
#include "kernels/core/quantization.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

class AdapterSet;  // parallel/layers/adapters.h

// Layers [begin, end) of a side of a model. A rank with the first one also has the side's
// embeddings; with the last one, its final norm and its heads.
struct LayerRange {
  int begin = 0, end = std::numeric_limits<int>::max();  // all of them

  static constexpr LayerRange none() { return {0, 0}; }
  bool operator==(const LayerRange&) const = default;
  bool empty() const { return begin >= end; }
  bool has_first() const { return begin == 0 && !empty(); }
  bool has_last(int of_layers) const { return end >= of_layers && !empty(); }
  bool has_all(int of_layers) const { return has_first() && has_last(of_layers); }
};

// The needs of building a layer besides its weights. Everything it refers to outlives it.
struct Build {
  Context& ctx;
  Communicator& comm;
  DType dtype;  // compute type of the linear layers: f32, bf16, i8 or i4; f32, f16 or bf16 on CUDA
  // How a device stores the weights of linear layers. Embeddings and the LM head stay in `dtype`.
  Quantization quantization = Quantization::kNone;
  // The type of 8-bit keys and values: i8 on the CPU, f8 on CUDA. Absent: by `dtype`
  // (models/model.h).
  std::optional<DType> kv_cache_dtype = {};
  // The layers to load: a rank of a pipeline has some of them. No encoder at all: another model's
  // stands for it.
  LayerRange encoder_layers = {}, decoder_layers = {};
  // Of a rank that runs encoders for others: without a layer of the decoder it has what makes the
  // keys and values of cross-attention, of all layers.
  bool writes_cross = false;
  // Where layers say which modules they are, so that adapters can change them. Null: none can.
  AdapterSet* adapters = nullptr;

  // For the layers of an encoder: int8 in place of int4, because only few rows gain by smaller
  // weights.
  Build of_many_rows() const {
    Build out = *this;
    if (dtype == DType::kI4) out.dtype = DType::kI8;
    out.quantization = tandem::of_many_rows(quantization);
    return out;
  }
  // For layers that each rank has as a whole: `alone` is its group of one.
  Build on(Communicator& alone) const {
    return {
        ctx,          alone,   dtype, quantization, kv_cache_dtype, encoder_layers, decoder_layers,
        writes_cross, adapters};
  }
  // For layers whose rows are not a step's (parallel/layers/adapters.h).
  Build without_adapters() const {
    Build out = *this;
    out.adapters = nullptr;
    return out;
  }
};

}  // namespace tandem
