// The discrete Fourier transform of short real frames.
#pragma once

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

// Of any length; quick where its factors are small (400 = 2^4 5^2, which is what speech models
// take: libraries for powers of two do not, and FFTW is under the GPL). In doubles: the quietest
// parts of a spectrum are 1e-8 of the loudest. Used by one thread.
class Fourier {
 public:
  explicit Fourier(size_t size);
  size_t size() const { return size_; }
  // |X_k|^2 for k of 0 … size / 2 of two real frames at once; `b` may be empty. The results do not
  // depend on each other but for rounding.
  void power(std::span<const double> a, std::span<const double> b, std::span<double> power_a,
             std::span<double> power_b);

 private:
  using Complex = std::complex<double>;
  void transform(const Complex* in, size_t step, Complex* out, size_t size, size_t factor);

  size_t size_;
  std::vector<size_t> factors_;
  std::vector<Complex> turns_;  // exp(-2 pi i k / size)
  std::vector<Complex> in_, out_, part_;
};

}  // namespace tandem
