// fc2(act(fc1 x)), or fc2(act(fc1 x) * gate x).
#pragma once

#include <optional>

#include "parallel/layers/layers.h"

namespace tandem {

struct FeedForwardOptions {
  int64_t width = 0;  // between the two layers
  Activation activation = Activation::kGelu;
  bool gated = false;  // fc2(act(fc1 x) * gate x)
  Bias bias = Bias::kRequired;
};

class FeedForward {
 public:
  // `gate` is read if there is one.
  FeedForward(const Weights& fc1, const Weights& gate, const Weights& fc2, const Build& b,
              int64_t d_model, const FeedForwardOptions& o)
      : fc2_(fc2, b, o.width, d_model, shard_range(o.width, b.comm.rank(), b.comm.size()), o.bias) {
    if (o.gated)
      gated_.emplace(fc1, gate, b, d_model, o.width, o.activation, o.bias);
    else
      fc1_.emplace(fc1, b, d_model, o.width, o.activation, o.bias);
  }
  Tensor forward(const Tensor& x) const {
    return fc2_.forward(gated_ ? gated_->forward(x) : fc1_->forward(x));
  }

 private:
  std::optional<ColumnParallelLinear> fc1_;   // exactly one
  std::optional<GatedParallelLinear> gated_;  // of these
  RowParallelLinear fc2_;
};

}  // namespace tandem
