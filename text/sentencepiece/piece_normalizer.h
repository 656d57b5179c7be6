// SentencePiece's normaliser: characters by the file's table, then white space.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/pipeline/growth_budget.h"
#include "text/pipeline/models/piece_index.h"
#include "text/pipeline/normalizers/charsmap.h"
#include "text/sentencepiece/piece_model.h"

namespace tandem {

inline constexpr std::string_view kSpaceSymbol = "\u2581";

class PieceNormalizer {
 public:
  explicit PieceNormalizer(const PieceModel& model);
  std::string normalize(std::string_view text, GrowthBudget& budget) const;

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
