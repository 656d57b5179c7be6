// The normalizer "Precompiled" of tokenizer.json: SentencePiece's table of characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/pipeline/normalizers/charsmap.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Applies the table as HuggingFace's tokenizers do: to a character with its marks if that has up to
// five bytes, else to each code point. The shortest entry that begins it counts.
class PrecompiledNormalizer final : public Normalizer {
 public:
  // Its key: precompiled_charsmap, in Base64. Throws InputError naming it.
  explicit PrecompiledNormalizer(const JsonView& json);
  std::string normalize(std::string_view text, GrowthBudget& budget) const override;
  void align(AlignedText& text, GrowthBudget& budget) const override;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;

  Charsmap charsmap_;
};

}  // namespace tandem
