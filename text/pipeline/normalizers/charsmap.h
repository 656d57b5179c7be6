// SentencePiece's table of characters and what they become.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// precompiled_charsmap: sequences of characters and what they become. Four bytes with the size of a
// double-array trie (of Darts-clone), the trie, then the replacements, each ended by a NUL.
class Charsmap {
 public:
  Charsmap() = default;  // empty
  // Throws InputError naming the file if the sizes do not fit.
  Charsmap(std::string_view bytes, const std::string& file);

  struct Match {
    size_t length = 0;  // of the sequence that begins the text; 0: there is none
    std::string_view replacement;
  };
  Match find(std::string_view text) const { return find(text, /*longest=*/true); }
  Match find_shortest(std::string_view text) const { return find(text, /*longest=*/false); }

 private:
  Match find(std::string_view text, bool longest) const;

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace tandem
