// Norms, and rows whose norm waits for the product that reads them. Used from the worker's thread.
#pragma once

#include <utility>

#include "kernels/ops.h"
#include "parallel/layers/build.h"
#include "parallel/layers/weights.h"

namespace tandem {

enum class NormKind : uint8_t {
  kLayer,        // layer normalisation with weight and bias
  kLayerNoBias,  // with a weight alone
  kRms,          // x / sqrt(mean of x^2 + eps) * weight
  kRmsPlusOne,   // the same with weight + 1
};

class Norm {
 public:
  Norm(const Weights& w, const Build& b, int64_t features, float eps = 1e-5f,
       NormKind kind = NormKind::kLayer);
  // All of [T, features].
  Tensor forward(const Tensor& x) const;
  // norm(residual + x), written over x; the residual stays. For post-norm layers.
  Tensor add_norm(const Tensor& residual, Tensor x) const;
  struct Sum {
    Tensor sum;     // residual + x, written over x; the residual stays
    Tensor normed;  // norm(sum)
  };
  // For pre-norm layers.
  Sum sum_and_norm(const Tensor& residual, Tensor x) const;
  // The same into the caller's tensors; no `sum`: writes only the norm.
  ops::LayerNormArgs args(const Tensor& residual, const Tensor& x, const Tensor& out,
                          const Tensor& sum) const;
  // Written over x [T, n * features]: each group of features by itself (heads). Of RMS norms.
  void norm_groups(const Tensor& x) const;
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // empty: none
  float eps() const { return eps_; }
  NormKind kind() const { return kind_; }

 private:
  bool rms() const { return kind_ == NormKind::kRms || kind_ == NormKind::kRmsPlusOne; }

  Build build_;
  Tensor weight_, bias_;
  float eps_;
  NormKind kind_;
};

// The input of a sublayer: rows, or a norm that is not computed yet. The first product that reads
// it computes the norm, if the device can (ops::LinearArgs::norm); otherwise it is computed before.
class NormedRows {
 public:
  explicit NormedRows(Tensor rows) : rows_(std::move(rows)) {}
  // norm(residual + x); the norm outlives this. May overwrite x; the residual stays. Without a
  // residual: norm(x), and x stays. keep_sum: sum() is wanted.
  NormedRows(const Norm& norm, Tensor residual, Tensor x, bool keep_sum)
      : norm_(&norm), residual_(std::move(residual)), x_(std::move(x)), keep_sum_(keep_sum) {}

  // The rows, computed now if they were not.
  const Tensor& rows();
  // residual + x, if it was to be kept. Computes the rows.
  const Tensor& sum();
  // [T, features of the weight]: activation(W rows + bias).
  Tensor multiply(const Build& b, const PackedWeight& weight, const Tensor& bias,
                  Activation activation);

 private:
  void made(Tensor rows, Tensor sum);

  const Norm* norm_ = nullptr;  // of rows that are not made
  Tensor residual_, x_, rows_, sum_;
  bool keep_sum_ = false;
};

}  // namespace tandem
