// The discrete Fourier transform of short real frames.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

template <typename Number>
class kissfft;

namespace tandem {

// Of any length; quick where its factors are small (400 = 2^4 5^2, which is what speech models
// take). KISS FFT computes, in doubles: the quietest parts of a spectrum are 1e-8 of the loudest.
// Used by one thread.
class Fourier {
 public:
  explicit Fourier(size_t size);
  ~Fourier();
  size_t size() const { return in_.size(); }
  // |X_k|^2 for k of 0 … size / 2 of two real frames at once; `b` may be empty. The results do not
  // depend on each other but for rounding.
  void power(std::span<const double> a, std::span<const double> b, std::span<double> power_a,
             std::span<double> power_b);

 private:
  using Complex = std::complex<double>;

  std::unique_ptr<kissfft<double>> transform_;
  std::vector<Complex> in_, out_;
};

}  // namespace tandem
