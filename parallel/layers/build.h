// The context in which layers are built.
#pragma once

#include <optional>

#include "kernels/core/context.h"
#include "kernels/core/quantization.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

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
  bool without_encoder = false;  // its layers are not loaded: another model's encoder stands for it

  // For the layers of an encoder: int8 in place of int4, because only few rows gain by smaller
  // weights.
  Build of_many_rows() const {
    Build out = *this;
    if (dtype == DType::kI4) out.dtype = DType::kI8;
    out.quantization = tandem::of_many_rows(quantization);
    return out;
  }
};

}  // namespace tandem
