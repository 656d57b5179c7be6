// The bytes that a tokenizer's tokens write, as tries: the tokens that a grammar allows are found
// by walking both at once.
#pragma once

#include <unicode/uniset.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tandem {

// Special and added tokens write nothing. SentencePiece's spaces are spaces, also at the start.
// A space that decoding puts between words (WordPiece) is one, but not at the start. Immutable;
// usable from any thread.
class TokenVocabulary {
 public:
  // In the order of a walk from the root: a node's descendants stand behind it, up to `skip`.
  struct Node {
    int32_t skip;
    int32_t first, last;  // tokens that end here: ids()[first, last)
    uint16_t depth;       // bytes, > 0
    uint8_t byte;
  };
  struct Trie {
    std::vector<Node> nodes;
    std::vector<int32_t> ids;
    int max_depth = 0;
  };

  // size: of the model's vocabulary; tokens beyond it are not there.
  TokenVocabulary(const Tokenizer& tokenizer, int32_t size);

  int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }
  // Of the first token of a text, or of another.
  const Trie& trie(bool first) const { return first && !first_.nodes.empty() ? first_ : trie_; }
  std::string_view bytes(int32_t id, bool first) const;
  // Characters that tokens can write. Whatever is made of them can be written if each of them has a
  // token of its own, or all its bytes have, as in the vocabularies of SentencePiece and BPE.
  // Null: all.
  const icu::UnicodeSet* writable() const { return writes_all_ ? nullptr : &writable_; }

 private:
  void find_writable();

  std::string bytes_;
  std::vector<size_t> offsets_;    // of each id's bytes; size() + 1
  std::vector<bool> loses_space_;  // at the start
  Trie trie_, first_;
  icu::UnicodeSet writable_;
  bool writes_all_ = false;
};

}  // namespace tandem
