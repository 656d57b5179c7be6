// exp() in plain float arithmetic, so that loops over it vectorise with baseline flags.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem {

// e^x for x <= 0, relative error about 1e-7 (2 ulp); 0 below -87, NaN for NaN. Each element is
// computed alike whether or not a loop around it is vectorised.
inline float exp_nonpositive(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;  // 2^n
  const float value = p * std::bit_cast<float>(scale);
  return x < -87.0f ? 0.0f : value;
}

}  // namespace tandem
