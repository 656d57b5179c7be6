#include "text/language_detector.h"

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

#include <algorithm>
#include <array>

namespace tandem {
namespace {

// A language does not change behind so much.
constexpr size_t kMostBytes = 64 << 10;

size_t readable_bytes(std::string_view text) {
  if (text.size() <= kMostBytes) return text.size();
  size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

// CLD2's own names are old ones of ISO 639 and, for Chinese, of countries.
std::string bcp47(const std::string& code) {
  if (code == "iw") return "he";
  if (code == "zh-Hant" || code == "zh-TW") return "zh-Hant";
  if (code == "no") return "nb";
  return code;
}

}  // namespace

std::vector<DetectedLanguage> detect_languages(std::string_view text) {
  std::array<CLD2::Language, 3> languages{CLD2::UNKNOWN_LANGUAGE, CLD2::UNKNOWN_LANGUAGE,
                                          CLD2::UNKNOWN_LANGUAGE};
  std::array<int, 3> percents{};
  std::array<double, 3> scores{};
  int text_bytes = 0, valid_bytes = 0;
  bool reliable = false;
  const auto size = static_cast<int>(readable_bytes(text));
  const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
  CLD2::ExtDetectLanguageSummaryCheckUTF8(
      text.data(), size, /*is_plain_text=*/true, &hints, CLD2::kCLDFlagBestEffort, languages.data(),
      percents.data(), scores.data(), nullptr, &text_bytes, &reliable, &valid_bytes);
  std::vector<DetectedLanguage> out;
  if (valid_bytes < size) return out;
  for (size_t i = 0; i < languages.size(); ++i) {
    if (languages[i] == CLD2::UNKNOWN_LANGUAGE || percents[i] == 0) continue;
    const double share = percents[i] / 100.0;
    out.push_back({bcp47(CLD2::LanguageCode(languages[i])), reliable ? share : share / 2});
  }
  return out;
}

}  // namespace tandem
