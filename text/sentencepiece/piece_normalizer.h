// SentencePiece's normaliser: characters by the file's table, then white space.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/text_pipeline.h"
#include "text/sentencepiece/piece_index.h"
#include "text/sentencepiece/piece_model.h"

namespace tandem {

inline constexpr std::string_view kSpaceSymbol = "\u2581";

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

class PieceNormalizer final : public Normalizer {
 public:
  explicit PieceNormalizer(const PieceModel& model);
  std::string normalize(std::string_view text) const override;

 private:
  struct Prefix {
    size_t length;  // in the text
    std::string_view normal;
  };
  Prefix prefix(std::string_view text) const;

  Charsmap charsmap_;
  PieceIndex user_defined_;  // stay as they are
  bool add_dummy_prefix_, remove_extra_whitespaces_;
  std::string_view space_;
};

}  // namespace tandem
