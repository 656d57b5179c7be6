// A trie that cuts a text at the tokens in it, as HuggingFace's Python tokenizers do.
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
  // The parts of `text` (valid UTF-8), in order; none is empty. Of tokens that begin at one place
  // the longest wins. A token that begins earlier wins over a later one, unless its match failed
  // before the later one was complete.
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
