// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
// a counter-based generator. The number for (key, counter) is a pure function of them, so nothing
// that happens between two draws (preemption, other sequences of the batch) can change it.
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Uniform in [0, 1), a multiple of 2^-53, for the given token of the given sequence of a request.
constexpr double uniform_draw(uint64_t seed, uint32_t seq_index, uint64_t token_index) {
  const PhiloxCounter bits = philox4x32_10(
      {static_cast<uint32_t>(token_index), static_cast<uint32_t>(token_index >> 32), seq_index, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = (uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

// Uniform in (0, 1), for each candidate of that token: beams draw without replacement.
constexpr double candidate_draw(uint64_t seed, uint32_t seq_index, uint64_t token_index,
                                uint32_t candidate) {
  const PhiloxCounter bits =
      philox4x32_10({static_cast<uint32_t>(token_index), candidate, seq_index, 1},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = (uint64_t{bits[0]} << 32) | bits[1];
  return (static_cast<double>(word >> 12) + 0.5) * 0x1.0p-52;
}

}  // namespace tandem
