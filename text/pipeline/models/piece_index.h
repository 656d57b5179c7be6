// Sorted strings, for finding those that begin a text, byte by byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Immutable; usable from any thread.
class PieceIndex {
 public:
  using Entry = std::pair<std::string, int>;  // a string that is not empty, its number

  PieceIndex() = default;
  explicit PieceIndex(std::vector<Entry> entries) : entries_(std::move(entries)) {
    std::sort(entries_.begin(), entries_.end());
  }

  // A string that is there twice; nullptr if none is.
  const std::string* duplicate() const {
    const auto at =
        std::adjacent_find(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.first == b.first; });
    return at == entries_.end() ? nullptr : &at->first;
  }

  // Calls found(length, number) for each string that `text` begins with, the shortest first.
  template <class Found>
  void each_prefix(std::string_view text, const Found& found) const {
    auto begin = entries_.begin(), end = entries_.end();
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const auto at = [i](const Entry& e) { return static_cast<unsigned char>(e.first[i]); };
      begin = std::partition_point(begin, end, [&](const Entry& e) { return at(e) < byte; });
      end = std::partition_point(begin, end, [&](const Entry& e) { return at(e) == byte; });
      if (begin == end) return;
      // The shortest of those with the same beginning comes first.
      if (begin->first.size() == i + 1) {
        found(i + 1, begin->second);
        if (++begin == end) return;
      }
    }
  }
  size_t longest_prefix(std::string_view text) const {
    size_t longest = 0;
    each_prefix(text, [&](size_t length, int) { longest = length; });
    return longest;
  }
  bool contains(std::string_view text) const { return longest_prefix(text) == text.size(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace tandem
