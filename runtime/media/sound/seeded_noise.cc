#include "runtime/media/sound/seeded_noise.h"

#include <cmath>
#include <cstddef>
#include <numbers>
#include <random>

#include "base/check.h"

namespace tandem {
namespace {

constexpr size_t kTogether = 16;  // numbers, of as many uniform ones

// 24 bits, in [0, 1).
float uniform(std::mt19937& bits) { return static_cast<float>(bits() & 0xffffff) * 0x1p-24f; }

// Box and Muller's, of pairs that lie 8 apart.
void make_normal(float* values) {
  for (size_t i = 0; i < kTogether / 2; ++i) {
    const float radius = std::sqrt(-2.0f * std::log(1.0f - values[i]));
    const float angle = 2.0f * std::numbers::pi_v<float> * values[i + kTogether / 2];
    values[i] = radius * std::cos(angle);
    values[i + kTogether / 2] = radius * std::sin(angle);
  }
}

}  // namespace

std::vector<float> seeded_noise(int64_t count, uint32_t seed) {
  const auto size = static_cast<size_t>(count);
  TANDEM_CHECK_GE(size, kTogether);
  std::mt19937 bits(seed);
  std::vector<float> out(size);
  for (float& x : out) x = uniform(bits);
  for (size_t i = 0; i + kTogether <= size; i += kTogether) make_normal(out.data() + i);
  if (size % kTogether == 0) return out;
  float* const last = out.data() + size - kTogether;  // new ones, over some of those before
  for (size_t i = 0; i < kTogether; ++i) last[i] = uniform(bits);
  make_normal(last);
  return out;
}

}  // namespace tandem
