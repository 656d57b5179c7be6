// fc2(act(fc1 x)), or fc2(act(fc1 x) * gate x).
#pragma once

#include <variant>

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
      : first_(o.gated ? First(GatedParallelLinear(fc1, gate, b, d_model, o.width, o.activation,
                                                   o.bias))
                       : ColumnParallelLinear(fc1, b, d_model, o.width, o.activation, o.bias)),
        fc2_(fc2, b, o.width, d_model, shard_range(o.width, b.comm.rank(), b.comm.size()), o.bias) {
  }
  Tensor forward(NormedRows& x) const {
    return fc2_.forward(std::visit([&](const auto& first) { return first.forward(x); }, first_));
  }
  Tensor forward(const Tensor& x) const {
    NormedRows rows(x);
    return forward(rows);
  }

 private:
  using First = std::variant<ColumnParallelLinear, GatedParallelLinear>;

  First first_;
  RowParallelLinear fc2_;
};

}  // namespace tandem
