#include "text/grammar/token_vocabulary.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/strings/utf8.h"

namespace tandem {
namespace {

constexpr size_t kMaxTokenBytes = std::numeric_limits<uint16_t>::max();

std::string bytes_of(const Tokenizer& tokenizer, int32_t id) {
  if (tokenizer.is_special(id) || tokenizer.is_added(id) || tokenizer.leaves_out(id)) return {};
  if (const auto byte = tokenizer.byte_of(id)) return std::string(1, *byte);
  std::string bytes = tokenizer.token_bytes(id);
  return bytes.size() <= kMaxTokenBytes ? bytes : std::string();
}

// A space that is not in the token, but between words.
bool is_spaced(const Tokenizer& tokenizer, int32_t id, std::string_view bytes) {
  const auto token = tokenizer.id_to_token(id);
  return token && bytes.size() == token->size() + 1 && bytes[0] == ' ' && bytes.substr(1) == *token;
}

using Entry = std::pair<std::string_view, int32_t>;

TokenVocabulary::Trie make_trie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  TokenVocabulary::Trie trie;
  std::vector<size_t> open;  // nodes from the root to the last one
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back())
      trie.nodes[open.back()].skip = static_cast<int32_t>(trie.nodes.size());
  };
  std::string_view before;
  for (const auto& [bytes, id] : entries) {
    const auto [end, unused] =
        std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    close(static_cast<size_t>(end - before.begin()));
    const auto at = static_cast<int32_t>(trie.ids.size());
    while (open.size() < bytes.size()) {
      const char byte = bytes[open.size()];
      open.push_back(trie.nodes.size());
      trie.nodes.push_back(
          {0, at, at, static_cast<uint16_t>(open.size()), static_cast<uint8_t>(byte)});
    }
    trie.ids.push_back(id);
    trie.nodes[open.back()].last = at + 1;
    trie.max_depth = std::max(trie.max_depth, static_cast<int>(open.size()));
    before = bytes;
  }
  close(0);
  return trie;
}

}  // namespace

TokenVocabulary::TokenVocabulary(const Tokenizer& tokenizer, int32_t size) {
  const int32_t known = std::min(size, tokenizer.size());
  bool any_spaced = false;
  loses_space_.resize(static_cast<size_t>(size));
  for (int32_t id = 0; id < size; ++id) {
    offsets_.push_back(bytes_.size());
    if (id >= known) continue;
    const std::string bytes = bytes_of(tokenizer, id);
    if (is_spaced(tokenizer, id, bytes)) any_spaced = loses_space_[static_cast<size_t>(id)] = true;
    bytes_ += bytes;
  }
  offsets_.push_back(bytes_.size());
  for (const bool first : {false, true}) {
    if (first && !any_spaced) break;
    std::vector<Entry> entries;
    for (int32_t id = 0; id < known; ++id)
      if (const std::string_view text = bytes(id, first); !text.empty())
        entries.emplace_back(text, id);
    (first ? first_ : trie_) = make_trie(std::move(entries));
  }
  find_writable();
}

std::string_view TokenVocabulary::bytes(int32_t id, bool first) const {
  if (id < 0 || id >= size()) return {};
  const auto i = static_cast<size_t>(id);
  const std::string_view bytes(bytes_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]);
  return first && loses_space_[i] ? bytes.substr(1) : bytes;
}

// By whole characters in tokens, and by bytes that are tokens.
void TokenVocabulary::find_writable() {
  std::array<bool, 256> single{};
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view text = bytes(id, false);
    if (text.size() == 1) single[static_cast<uint8_t>(text[0])] = true;
    if (find_invalid_utf8(text) != std::string_view::npos) continue;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      writable_.add(static_cast<UChar32>(c.value));
      at += static_cast<size_t>(c.length);
    }
  }
  writes_all_ = std::all_of(single.begin(), single.end(), [](bool is) { return is; });
  const bool writes_bytes =
      std::any_of(single.begin() + 0x80, single.end(), [](bool is) { return is; });
  if (writes_all_ || !writes_bytes) return;
  std::string text;
  for (char32_t c = 0x80; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    text.clear();
    append_utf8(c, text);
    if (std::all_of(text.begin(), text.end(),
                    [&](char b) { return single[static_cast<uint8_t>(b)]; }))
      writable_.add(static_cast<UChar32>(c));
  }
}

}  // namespace tandem
