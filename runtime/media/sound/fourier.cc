#include "runtime/media/sound/fourier.h"

// It has no includes of its own for these.
#include <cmath>
#include <cstddef>
#include <kissfft/kissfft.hh>

#include "base/check.h"

namespace tandem {

Fourier::Fourier(size_t size) : in_(size), out_(size) {
  TANDEM_CHECK_GE(size, size_t{2});
  transform_ = std::make_unique<kissfft<double>>(size, /*inverse=*/false);
}

Fourier::~Fourier() = default;

void Fourier::power(std::span<const double> a, std::span<const double> b, std::span<double> power_a,
                    std::span<double> power_b) {
  const size_t size = in_.size();
  for (size_t i = 0; i < size; ++i) in_[i] = {a[i], b.empty() ? 0.0 : b[i]};
  transform_->transform(in_.data(), out_.data());
  // X = A + iB, and A and B are of real numbers: A_k = (X_k + conj X_-k) / 2, iB_k the rest.
  for (size_t k = 0; k <= size / 2; ++k) {
    const Complex x = out_[k], y = std::conj(out_[(size - k) % size]);
    power_a[k] = std::norm(x + y) / 4;
    if (!b.empty()) power_b[k] = std::norm(x - y) / 4;
  }
}

}  // namespace tandem
