// fc2(act(fc1 x)).
#pragma once

#include "base/error.h"
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
  // Throws InputError (kNotSupported) for a gate: no op multiplies yet.
  FeedForward(const Weights& fc1, const Weights& fc2, const Build& b, int64_t d_model,
              const FeedForwardOptions& o)
      : fc1_(fc1, b, d_model, checked(o, fc1).width, o.activation, o.bias),
        fc2_(fc2, b, o.width, d_model, shard_range(o.width, b.comm.rank(), b.comm.size()), o.bias) {
  }
  Tensor forward(const Tensor& x) const { return fc2_.forward(fc1_.forward(x)); }

 private:
  static const FeedForwardOptions& checked(const FeedForwardOptions& o, const Weights& fc1) {
    if (o.gated)
      throw not_supported(fc1.scope(), "a feed-forward layer with a gate is not supported");
    return o;
  }

  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace tandem
