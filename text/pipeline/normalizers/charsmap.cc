#include "text/pipeline/normalizers/charsmap.h"

#include "base/error.h"
#include "base/strings/utf8.h"

namespace tandem {
namespace {

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

// A unit of the trie: a label, where the children are, whether a value is there.
constexpr uint32_t label(uint32_t unit) { return unit & (0x80000000u | 0xFF); }
constexpr uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
constexpr bool has_leaf(uint32_t unit) { return (unit >> 8) & 1; }
constexpr uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFFu; }

// A byte of UTF-8 that begins no character.
bool continues(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) return;
  const auto fail = [&] { throw invalid_model(file, "precompiled_charsmap: damaged"); };
  if (bytes.size() <= 4) fail();
  const size_t size = read_u32(bytes, 0);
  if (size % 4 != 0 || size > bytes.size() - 4 || size == 0) fail();
  for (size_t at = 0; at < size; at += 4) trie_.push_back(read_u32(bytes, 4 + at));
  replacements_ = bytes.substr(4 + size);
  if (replacements_.empty() || replacements_.back() != '\0') fail();
  if (find_invalid_utf8(replacements_) != std::string::npos) fail();
}

Charsmap::Match Charsmap::find(std::string_view text, bool longest) const {
  Match match;
  if (trie_.empty()) return match;
  size_t node = offset(trie_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || label(trie_[node]) != byte) break;
    const uint32_t unit = trie_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size() || value(trie_[node]) >= replacements_.size()) break;
    const char* replacement = replacements_.c_str() + value(trie_[node]);
    // A damaged table may cut characters.
    if (continues(*replacement) || (i + 1 < text.size() && continues(text[i + 1]))) continue;
    match = {i + 1, replacement};
    if (!longest) break;
  }
  return match;
}

}  // namespace tandem
