// A hash of token ids, for tables whose entries are compared with the ids themselves.
#pragma once

#include <cstdint>
#include <span>

namespace tandem {

inline uint64_t hash_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 32);
}

inline uint64_t hash_tokens(uint64_t seed, std::span<const int32_t> tokens) {
  uint64_t hash = hash_mix(seed, tokens.size());
  for (const int32_t token : tokens) hash = hash_mix(hash, static_cast<uint32_t>(token));
  return hash;
}

}  // namespace tandem
