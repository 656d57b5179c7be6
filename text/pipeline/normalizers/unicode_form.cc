// Normal forms by ICU, limited to the characters of Unicode 9: the library's tables are as old, and
// leave newer characters alone.
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/pipeline/normalizers/normalizer_steps.h"

namespace tandem {
namespace {

const icu::UnicodeSet& old_characters() {
  static const auto set = [] {
    UErrorCode status = U_ZERO_ERROR;
    auto characters = std::make_unique<icu::UnicodeSet>(icu::UnicodeString("[:age=9.0:]"), status);
    TANDEM_CHECK(U_SUCCESS(status));
    characters->freeze();
    return characters;
  }();
  return *set;
}

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(const icu::Normalizer2& form) : form_(form, old_characters()) {}
  std::string normalize(std::string_view text) const override {
    if (std::all_of(text.begin(), text.end(),
                    [](char c) { return static_cast<uint8_t>(c) < 0x80; }))
      return std::string(text);
    UErrorCode status = U_ZERO_ERROR;
    std::string out;
    icu::StringByteSink<std::string> sink(&out);
    const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    const icu::Normalizer2& form = form_;
    form.normalizeUTF8(0, piece, sink, nullptr, status);
    TANDEM_CHECK(U_SUCCESS(status));
    return out;
  }

 private:
  icu::FilteredNormalizer2 form_;
};

const icu::Normalizer2* named_form(const std::string& name) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = nullptr;
  if (name == "NFC") form = icu::Normalizer2::getNFCInstance(status);
  if (name == "NFD") form = icu::Normalizer2::getNFDInstance(status);
  if (name == "NFKC") form = icu::Normalizer2::getNFKCInstance(status);
  if (name == "NFKD") form = icu::Normalizer2::getNFKDInstance(status);
  TANDEM_CHECK(U_SUCCESS(status));
  return form;  // ICU's
}

}  // namespace

std::unique_ptr<Normalizer> make_unicode_form(const JsonView& json) {
  const icu::Normalizer2* form = named_form(json.at("type").string());
  return form ? std::make_unique<UnicodeForm>(*form) : nullptr;
}

}  // namespace tandem
