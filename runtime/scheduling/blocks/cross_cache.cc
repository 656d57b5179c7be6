#include "runtime/scheduling/blocks/cross_cache.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

CrossCache::CrossCache(int num_blocks) : owners_(static_cast<size_t>(num_blocks)) {}

const Blocks* CrossCache::find(uint64_t hash, std::span<const int32_t> tokens) const {
  const auto [first, last] = entries_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (std::equal(tokens.begin(), tokens.end(), it->second.tokens.begin(),
                   it->second.tokens.end()))
      return &it->second.blocks;
  return nullptr;
}

void CrossCache::insert(uint64_t hash, std::span<const int32_t> tokens, const Blocks& blocks) {
  TANDEM_CHECK(!tokens.empty() && !blocks.empty());
  const auto it =
      entries_.emplace(hash, CachedSource{{tokens.begin(), tokens.end()}, blocks, hash});
  for (const int32_t block : blocks) {
    const CachedSource*& owner = owners_.at(static_cast<size_t>(block));
    TANDEM_CHECK(owner == nullptr, "a block of two sources");
    owner = &it->second;
  }
}

Blocks CrossCache::erase(int32_t block) {
  const CachedSource* const entry = owners_.at(static_cast<size_t>(block));
  TANDEM_CHECK(entry != nullptr, "a block of no source");
  Blocks blocks = entry->blocks;
  for (const int32_t b : blocks) owners_[static_cast<size_t>(b)] = nullptr;
  auto it = entries_.equal_range(entry->hash).first;
  while (&it->second != entry) ++it;
  entries_.erase(it);
  return blocks;
}

void CrossCache::clear() {
  entries_.clear();
  owners_.assign(owners_.size(), nullptr);
}

void CrossCache::check_integrity() const {
  size_t owned = 0;
  for (const auto& [hash, entry] : entries_) {
    TANDEM_CHECK_EQ(hash, entry.hash);
    TANDEM_CHECK(find(hash, entry.tokens) == &entry.blocks, "two entries of one source");
    owned += entry.blocks.size();
    for (const int32_t block : entry.blocks)
      TANDEM_CHECK(owners_.at(static_cast<size_t>(block)) == &entry);
  }
  const auto free = std::count(owners_.begin(), owners_.end(), nullptr);
  TANDEM_CHECK_EQ(owned + static_cast<size_t>(free), owners_.size());
}

}  // namespace tandem
