// Normalizers: the Unicode normal forms, and sequences of them.
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <utility>

#include "base/check.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(const icu::Normalizer2* form) : form_(form) {}
  std::string normalize(std::string_view text) const override {
    UErrorCode status = U_ZERO_ERROR;
    std::string out;
    icu::StringByteSink<std::string> sink(&out);
    const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    form_->normalizeUTF8(0, piece, sink, nullptr, status);
    TANDEM_CHECK(U_SUCCESS(status));
    return out;
  }

 private:
  const icu::Normalizer2* form_;  // ICU owns it
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  std::string normalize(std::string_view text) const override {
    std::string out(text);
    for (const auto& step : steps_) out = step->normalize(out);
    return out;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

const icu::Normalizer2* unicode_form(const std::string& name) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* form = nullptr;
  if (name == "NFC") form = icu::Normalizer2::getNFCInstance(status);
  if (name == "NFD") form = icu::Normalizer2::getNFDInstance(status);
  if (name == "NFKC") form = icu::Normalizer2::getNFKCInstance(status);
  if (name == "NFKD") form = icu::Normalizer2::getNFKDInstance(status);
  TANDEM_CHECK(U_SUCCESS(status));
  return form;
}

std::unique_ptr<Normalizer> make(const JsonView& json, int depth) {
  if (depth > kMaxNesting) json.fail("nested too deeply");
  const JsonView type = json.at("type");
  if (const icu::Normalizer2* form = unicode_form(type.string()))
    return std::make_unique<UnicodeNormalizer>(form);
  if (type.string() != "Sequence")
    type.fail_unsupported("the normalizer " + type.string() + " is not supported");
  const JsonView parts = json.at("normalizers");
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (size_t i = 0, n = num_parts(parts); i < n; ++i)
    steps.push_back(make(parts.at(i), depth + 1));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonView& json) { return make(json, 0); }

}  // namespace tandem
