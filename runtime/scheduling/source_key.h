// Keys of the caches of blocks, and hashes of token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tandem {

// A hash of token ids, for tables whose entries are compared with the ids themselves.
inline uint64_t hash_mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 32);
}

inline uint64_t hash_tokens(uint64_t seed, std::span<const int32_t> tokens) {
  uint64_t hash = hash_mix(seed, tokens.size());
  for (const int32_t token : tokens) hash = hash_mix(hash, static_cast<uint32_t>(token));
  return hash;
}

// Token ids, or the bits of frames, and their hash. Copies share the numbers: a window of sound has
// 240,000 of them. Immutable.
class SourceKey {
 public:
  explicit SourceKey(std::vector<int32_t> numbers)
      : hash_(hash_tokens(0, numbers)),
        numbers_(std::make_shared<const std::vector<int32_t>>(std::move(numbers))) {}
  // hash: any function of the numbers.
  SourceKey(uint64_t hash, std::vector<int32_t> numbers)
      : hash_(hash), numbers_(std::make_shared<const std::vector<int32_t>>(std::move(numbers))) {}

  uint64_t hash() const { return hash_; }
  std::span<const int32_t> numbers() const { return *numbers_; }
  bool operator==(const SourceKey& other) const {
    return numbers_ == other.numbers_ || (hash_ == other.hash_ && *numbers_ == *other.numbers_);
  }

 private:
  uint64_t hash_;
  std::shared_ptr<const std::vector<int32_t>> numbers_;
};

}  // namespace tandem
