#include "text/grammar/character_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/strings/utf8.h"

namespace tandem {
namespace {

bool accepts(const CharacterBytes& all, int32_t start, const std::string& bytes) {
  int32_t at = start;
  for (const char byte : bytes) {
    if (at < 0) return false;
    at = all.next(at, static_cast<uint8_t>(byte));
  }
  return at == CharacterBytes::kComplete;
}

TEST(CharacterBytes, EachCharacterOfAClassAndNoOther) {
  std::mt19937_64 rng(5);
  CharacterBytes all;
  EXPECT_EQ(all.add({}), CharacterBytes::kNowhere);
  for (int trial = 0; trial < 60; ++trial) {
    const char32_t most = trial % 3 == 0 ? 0x200 : trial % 3 == 1 ? 0x3000 : 0x10ffff;
    std::vector<char32_t> bounds;
    for (size_t i = 2 * (1 + rng() % 5); i > 0; --i)
      bounds.push_back(static_cast<char32_t>(rng() % most));
    std::sort(bounds.begin(), bounds.end());
    std::vector<CodePointRange> ranges;
    for (size_t i = 0; i < bounds.size(); i += 2) {
      if (bounds[i + 1] >= 0xd800 && bounds[i] <= 0xdfff) continue;
      if (!ranges.empty() && ranges.back().last >= bounds[i]) continue;
      ranges.push_back({bounds[i], bounds[i + 1]});
    }
    const int32_t start = all.add(ranges);
    if (ranges.empty()) continue;
    const auto expected = [&](char32_t c) {
      return std::any_of(ranges.begin(), ranges.end(),
                         [&](const auto& r) { return r.first <= c && c <= r.last; });
    };
    const auto check = [&](char32_t c) {
      if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return;
      std::string bytes;
      append_utf8(c, bytes);
      ASSERT_EQ(accepts(all, start, bytes), expected(c)) << std::hex << static_cast<uint32_t>(c);
      ASSERT_FALSE(accepts(all, start, bytes + "a"));
    };
    for (const char32_t c : bounds)
      for (char32_t d = c < 3 ? 0 : c - 3; d < c + 4; ++d) check(d);
    for (int i = 0; i < 500; ++i) check(static_cast<char32_t>(rng() % (most + 100)));
  }
}

}  // namespace
}  // namespace tandem
