// Input: a length in a byte, so many bytes of text, and SentencePiece's table of characters, which
// both normalisers apply.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/strings/base64.h"
#include "base/strings/utf8.h"
#include "text/pipeline/normalizers/precompiled.h"
#include "text/sentencepiece/piece_normalizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t length = std::min<size_t>(data[0], all.size());
  std::string text = "a\uFB01 e\u0301\u00BD";
  append_utf8_lossy(all.substr(0, length), text);
  const std::string table(all.substr(length));
  try {
    PieceModel model;
    model.charsmap = table;
    const nlohmann::json json = {{"precompiled_charsmap", encode_base64(table)}};
    GrowthBudget budget("input", text.size());
    const std::string of_model = PieceNormalizer(model).normalize(text, budget);
    const std::string of_file =
        PrecompiledNormalizer(JsonView(json, "input")).normalize(text, budget);
    for (const std::string& out : {of_model, of_file})
      if (find_invalid_utf8(out) != std::string::npos) std::abort();
  } catch (const InputError&) {
  }
  return 0;
}
