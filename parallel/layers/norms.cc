#include "parallel/layers/norms.h"

namespace tandem {

Norm::Norm(const Weights& w, const Build& b, int64_t features, float eps, NormKind kind)
    : build_(b), eps_(eps), kind_(kind) {
  const Tensor weight = to_float(w.get("weight", {features}));
  if (kind == NormKind::kRmsPlusOne)
    for (int64_t i = 0; i < features; ++i) weight.data<float>()[i] += 1.0f;
  weight_ = b.ctx.resident(weight);
  if (rms()) return;
  bias_ = b.ctx.resident(kind == NormKind::kLayer ? to_float(w.get("bias", {features}))
                                                  : Tensor::zeros({features}, DType::kF32));
}

ops::LayerNormArgs Norm::args(const Tensor& residual, const Tensor& x, const Tensor& out,
                              const Tensor& sum) const {
  return {x, residual, weight_, bias_, eps_, out, sum, rms()};
}

Tensor Norm::forward(const Tensor& x) const {
  const Tensor out = build_.ctx.make({x.dim(0), x.dim(1)});
  ops::layer_norm(build_.ctx, args({}, x, out, {}));
  return out;
}

Tensor Norm::add_norm(const Tensor& residual, Tensor x) const {
  ops::layer_norm(build_.ctx, args(residual, x, x, {}));
  return x;
}

Norm::Sum Norm::sum_and_norm(const Tensor& residual, Tensor x) const {
  const Tensor out = build_.ctx.make({x.dim(0), x.dim(1)});
  ops::layer_norm(build_.ctx, args(residual, x, out, x));
  return {std::move(x), out};
}

const Tensor& NormedRows::rows() {
  if (norm_ == nullptr) return rows_;
  if (residual_.empty()) {
    made(norm_->forward(x_), x_);
  } else if (keep_sum_) {
    Norm::Sum both = norm_->sum_and_norm(residual_, x_);
    made(std::move(both.normed), std::move(both.sum));
  } else {
    made(norm_->add_norm(residual_, x_), {});
  }
  return rows_;
}

const Tensor& NormedRows::sum() {
  rows();
  return sum_;
}

Tensor NormedRows::multiply(const Build& b, const PackedWeight& weight, const Tensor& bias,
                            Activation activation) {
  const Tensor& x = norm_ == nullptr ? rows_ : x_;
  const Tensor out = b.ctx.make({x.dim(0), weight.out_features()});
  if (norm_ == nullptr) {
    ops::linear(b.ctx, {&weight, x, bias, activation, out});
    return out;
  }
  // The CPU may write the norm, or the sum, over what it reads.
  const bool adds = !residual_.empty(), sums = keep_sum_ && adds;
  const auto written = [&](bool over_x) {
    return over_x && b.ctx.on_cpu() ? x_ : b.ctx.make({x.dim(0), x.dim(1)});
  };
  const Tensor normed = written(adds && !sums), sum = sums ? written(true) : Tensor();
  const ops::LayerNormArgs norm = norm_->args(residual_, x_, normed, sum);
  ops::linear(b.ctx, {&weight, normed, bias, activation, out, &norm});
  made(normed, adds ? sum : x_);
  return out;
}

void NormedRows::made(Tensor rows, Tensor sum) {
  norm_ = nullptr;
  rows_ = std::move(rows);
  sum_ = std::move(sum);
  residual_ = x_ = Tensor();
}

void Norm::norm_groups(const Tensor& x) const {
  const int64_t groups = x.dim(1) / weight_.dim(0);
  if (groups == 0) return;  // a rank without heads
  ops::layer_norm(build_.ctx,
                  {x, {}, weight_, bias_, eps_, x, {}, rms(), static_cast<int>(groups)});
}

}  // namespace tandem
