#include "models/blocks/head_transform.h"

namespace tandem {

struct HeadTransform::Layers {
  Layers(const Weights& dense_weights, const Weights& norm_weights, const Build& b, int64_t d_model,
         Activation activation, float eps)
      : alone(make_local_communicator()),
        build(b.on(*alone)),
        dense(dense_weights, build, d_model, d_model, activation),
        norm(norm_weights, build, d_model, eps) {}

  const std::unique_ptr<Communicator> alone;
  Build build;
  ColumnParallelLinear dense;
  Norm norm;
};

HeadTransform::HeadTransform(const Weights& dense, const Weights& norm, const Build& b,
                             int64_t d_model, Activation activation, float eps)
    : layers_(std::make_shared<const Layers>(dense, norm, b, d_model, activation, eps)) {}

Tensor HeadTransform::forward(const Tensor& hidden) const {
  return layers_->norm.forward(layers_->dense.forward(hidden));
}

}  // namespace tandem
