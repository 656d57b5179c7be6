// What some decoders put between their last layer and the output embedding: norm(act(W x + b)).
#pragma once

#include <memory>

#include "parallel/layers/layers.h"

namespace tandem {

// Whole on every rank, since logits of a shard exchange nothing.
class HeadTransform {
 public:
  HeadTransform(const Weights& dense, const Weights& norm, const Build& b, int64_t d_model,
                Activation activation, float eps);
  Tensor forward(const Tensor& hidden) const;  // [rows, d_model] → the same shape

 private:
  struct Layers;
  std::shared_ptr<const Layers> layers_;
};

}  // namespace tandem
