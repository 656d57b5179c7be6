// By how much a tokenizer's stages may lengthen a text. A file of a few lines can double a text at
// each of many steps (ByteLevel behind ByteLevel), so it is the text that is bounded, not the
// steps.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem {

// All stages of one encode() share one. Bytes that a step takes away are not given back.
class GrowthBudget {
 public:
  // `file` (whose stages they are) must outlive it.
  GrowthBudget(std::string_view file, size_t text_bytes);

  // A step made `after` bytes of `before`. Throws InputError naming file and limit where all steps
  // together have added too many.
  void spend(size_t before, size_t after);
  // The same, not counted: for a step that is under way.
  void check(size_t before, size_t after) const;

 private:
  std::string_view file_;
  size_t text_bytes_, left_;
};

}  // namespace tandem
