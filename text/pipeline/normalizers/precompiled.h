// The normalizer "Precompiled" of tokenizer.json: SentencePiece's table of characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/normalizers/charsmap.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Applies the table as HuggingFace's tokenizers do: to a character with its marks if that has up to
// five bytes, else to each code point. The shortest entry that begins it counts.
class PrecompiledNormalizer final : public Normalizer {
 public:
  // Its key: precompiled_charsmap, in Base64. Throws InputError naming it.
  explicit PrecompiledNormalizer(const JsonView& json);
  std::string normalize(std::string_view text) const override;
  void align(AlignedText& text) const override;

 private:
  bool add_changes(std::string_view part, std::vector<AlignedText::Change>& changes) const;
  bool append_replacement(std::string_view part, std::string& out) const;
  void append_cluster(std::string_view cluster, std::string& out) const;

  Charsmap charsmap_;
};

}  // namespace tandem
