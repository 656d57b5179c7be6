// A trie that cuts a text along the tokens in it, with the decisions of HuggingFace's Python
// tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tandem {

// Immutable once filled; usable from any thread.
class TextTrie {
 public:
  TextTrie() : nodes_(1) {}
  // `token`: valid UTF-8; an empty one is none.
  void insert(std::string_view token);
  // The parts of `text` (valid UTF-8), in order; none is empty. A token that begins earlier wins,
  // if it was not given up by the time that a later one is complete; of those that begin at a
  // place, the longest.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Node {
    std::unordered_map<char32_t, int32_t> next;
    bool ends = false;  // a token ends here
  };
  // A token that may have begun.
  struct Candidate {
    size_t start;
    int32_t node;
  };
  struct Match {
    size_t start, end;
  };
  class Scan;

  int32_t child(int32_t node, char32_t c) const;

  std::vector<Node> nodes_;
};

}  // namespace tandem
