// Normalizers: the Unicode normal forms, stripping, prepending, replacing, and sequences of them.
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>

#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "text/pipeline/normalizers/precompiled.h"
#include "text/pipeline/text_pipeline.h"
#include "text/unicode/unicode_classes.h"

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

// White space at the ends.
class StripNormalizer : public Normalizer {
 public:
  explicit StripNormalizer(const JsonView& json)
      : left_(json.at("strip_left").boolean()), right_(json.at("strip_right").boolean()) {}
  std::string normalize(std::string_view text) const override {
    while (left_ && !text.empty()) {
      const CodePoint c = code_point_at(text, 0);
      if (!is_space(c.value)) break;
      text.remove_prefix(static_cast<size_t>(c.length));
    }
    while (right_ && !text.empty()) {
      const size_t last = previous_position(text, text.size());
      if (!is_space(code_point_at(text, last).value)) break;
      text = text.substr(0, last);
    }
    return std::string(text);
  }

 private:
  bool left_, right_;
};

// A string before each text that is not empty.
class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(const JsonView& json) : before_(json.at("prepend").string()) {}
  std::string normalize(std::string_view text) const override {
    return text.empty() ? std::string() : before_ + std::string(text);
  }

 private:
  std::string before_;
};

// A string, or two spaces and more, by another string.
class ReplaceNormalizer : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonView& json) : content_(json.at("content").string()) {
    const JsonView pattern = json.at("pattern");
    if (const auto string = pattern.find("String")) {
      pattern_ = string->string();
      if (pattern_.empty()) string->fail("is empty");
      return;
    }
    const JsonView regex = pattern.at("Regex");
    if (regex.string() != " {2,}")
      regex.fail_unsupported("the pattern " + printable(regex.string()) + " is not supported");
    pattern_ = "  ";
    greedy_ = true;
  }
  std::string normalize(std::string_view text) const override {
    std::string out;
    for (size_t at = 0;;) {
      const size_t found = text.find(pattern_, at);
      out += text.substr(at, found - at);
      if (found == std::string_view::npos) return out;
      out += content_;
      at = found + pattern_.size();
      while (greedy_ && at < text.size() && text[at] == ' ') ++at;
    }
  }

 private:
  std::string pattern_, content_;
  bool greedy_ = false;  // takes further spaces with it
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

std::unique_ptr<Normalizer> make_step(const JsonView& json, int depth) {
  if (depth > kMaxNesting) json.fail("nested too deeply");
  const JsonView type = json.at("type");
  if (const icu::Normalizer2* form = unicode_form(type.string()))
    return std::make_unique<UnicodeNormalizer>(form);
  if (type.string() == "Precompiled") return std::make_unique<PrecompiledNormalizer>(json);
  if (type.string() == "Strip") return std::make_unique<StripNormalizer>(json);
  if (type.string() == "Prepend") return std::make_unique<PrependNormalizer>(json);
  if (type.string() == "Replace") return std::make_unique<ReplaceNormalizer>(json);
  if (type.string() != "Sequence")
    type.fail_unsupported("the normalizer " + type.string() + " is not supported");
  const JsonView parts = json.at("normalizers");
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (size_t i = 0, n = num_parts(parts); i < n; ++i)
    steps.push_back(make_step(parts.at(i), depth + 1));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonView& json) { return make_step(json, 0); }

}  // namespace tandem
