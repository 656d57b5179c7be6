// The noise that some feature extractors add to a clip.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

// torch.randn(count) of a generator with that seed, in f32; at least 16 numbers. (Equal but for the
// last bits of logarithms and sines.)
std::vector<float> seeded_noise(int64_t count, uint32_t seed);

}  // namespace tandem
