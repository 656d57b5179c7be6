#include "runtime/media/sound/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tandem {
namespace {

// (std::complex looks for infinities.)
std::complex<double> times(std::complex<double> a, std::complex<double> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

Fourier::Fourier(size_t size) : size_(size), turns_(size), in_(size), out_(size) {
  TANDEM_CHECK_GE(size, size_t{2});
  for (size_t rest = size, p = 2; rest > 1; ++p)
    for (; rest % p == 0; rest /= p) factors_.push_back(p);
  part_.resize(factors_.back());
  for (size_t k = 0; k < size; ++k) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size);
    turns_[k] = {std::cos(angle), std::sin(angle)};
  }
}

// Of in[0], in[step], …: each factor's parts, then sums over them (Cooley and Tukey).
void Fourier::transform(const Complex* in, size_t step, Complex* out, size_t size, size_t factor) {
  const size_t p = factors_[factor], rest = size / p, turn = size_ / size;
  for (size_t i = 0; i < p; ++i) {
    if (rest == 1)
      out[i] = in[i * step];
    else
      transform(in + i * step, step * p, out + i * rest, rest, factor + 1);
  }
  for (size_t u = 0; u < rest; ++u) {
    for (size_t q = 0; q < p; ++q) part_[q] = out[u + q * rest];
    for (size_t k = u; k < size; k += rest) {
      Complex sum = part_[0];
      for (size_t q = 1, at = 0; q < p; ++q) {
        at = (at + turn * k) % size_;
        sum += times(part_[q], turns_[at]);
      }
      out[k] = sum;
    }
  }
}

void Fourier::power(std::span<const double> a, std::span<const double> b, std::span<double> power_a,
                    std::span<double> power_b) {
  for (size_t i = 0; i < size_; ++i) in_[i] = {a[i], b.empty() ? 0.0 : b[i]};
  transform(in_.data(), 1, out_.data(), size_, 0);
  // X = A + iB, and A and B are of real numbers: A_k = (X_k + conj X_-k) / 2, iB_k the rest.
  for (size_t k = 0; k <= size_ / 2; ++k) {
    const Complex x = out_[k], y = std::conj(out_[(size_ - k) % size_]);
    power_a[k] = std::norm(x + y) / 4;
    if (!b.empty()) power_b[k] = std::norm(x - y) / 4;
  }
}

}  // namespace tandem
