// Texts with places on an image, as <loc_…> tokens, and what they say in pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What an answer is made of; the names of HuggingFace's Florence2Processor.
enum class LocatedForm : uint8_t {
  kPureText,
  kOcr,
  kDescriptionWithBoxes,
  kPhraseGrounding,
  kPolygons,
  kDescriptionWithBoxesOrPolygons,
  kBoxes,
};

struct LocatedOptions {
  int width = 0, height = 0;                     // of the image, pixels
  std::vector<std::string> banned_phrases = {};  // of kPhraseGrounding
  double area_threshold = 0;  // of kOcr: the least area, as a part of the image's
};

// What post_process_generation() of that processor says of a task. `text` is valid UTF-8, with its
// special tokens. Throws InputError for a place that is no int64, and for texts of more than
// kMaxLocatedBytes.
nlohmann::ordered_json located_text(std::string_view text, LocatedForm form,
                                    const LocatedOptions& options);
inline constexpr size_t kMaxLocatedBytes = 256 * 1024;

}  // namespace tandem
