// Normalizers that drop, replace or surround single characters.
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pipeline/normalizers/normalizer_steps.h"
#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/unicode/library_classes.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

// What becomes of each character; one that becomes nothing is dropped.
class CharacterNormalizer final : public Normalizer {
 public:
  using Append = void (*)(char32_t c, std::string& out);
  enum class Steps { kDrops, kChanges, kDropsAndChanges };  // of the library's normalizer
  CharacterNormalizer(Append append, Steps steps) : append_(append), steps_(steps) {}

  std::string normalize(std::string_view text, GrowthBudget&) const override {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      append_(c.value, out);
      at += static_cast<size_t>(c.length);
    }
    return out;
  }
  void align(AlignedText& text, GrowthBudget&) const override {
    std::string made;
    const auto make = [&](char32_t c) -> const std::string& {
      made.clear();
      append_(c, made);
      return made;
    };
    if (steps_ != Steps::kChanges) text.filter([&](char32_t c) { return !make(c).empty(); });
    if (steps_ == Steps::kDrops) return;
    std::vector<AlignedText::Change> changes;
    for (const AlignedText::Change& before : unchanged(text.text())) {
      std::vector<AlignedText::Change> parts = unchanged(make(before.character));
      for (size_t i = 1; i < parts.size(); ++i) parts[i].change = 1;
      changes.insert(changes.end(), parts.begin(), parts.end());
    }
    text.transform(changes);
  }

 private:
  Append append_;
  Steps steps_;
};

void append_clean(char32_t c, std::string& out) {
  if (c == 0 || c == 0xFFFD || is_control(c)) return;
  append_utf8(is_space(c) ? U' ' : c, out);
}

// Ideographs as BERT has them: words of their own.
void append_spaced(char32_t c, std::string& out) {
  const bool ideograph = in_range(c, 0x4E00, 0x9FFF) || in_range(c, 0x3400, 0x4DBF) ||
                         in_range(c, 0x20000, 0x2A6DF) || in_range(c, 0x2A700, 0x2B73F) ||
                         in_range(c, 0x2B740, 0x2B81F) || in_range(c, 0x2B920, 0x2CEAF) ||
                         in_range(c, 0xF900, 0xFAFF) || in_range(c, 0x2F800, 0x2FA1F);
  if (ideograph) out.push_back(' ');
  append_utf8(c, out);
  if (ideograph) out.push_back(' ');
}

void append_without_accents(char32_t c, std::string& out) {
  if (!is_nonspacing_mark(c)) append_utf8(c, out);
}

void append_without_marks(char32_t c, std::string& out) {
  if (!is_mark(c)) append_utf8(c, out);
}

// SentencePiece's rules for machine translation.
void append_nmt(char32_t c, std::string& out) {
  const bool dropped = in_range(c, 0x1, 0x8) || c == 0xB || in_range(c, 0xE, 0x1F) || c == 0x7F ||
                       c == 0x8F || c == 0x9F;
  if (dropped) return;
  const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     in_range(c, 0x200B, 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  append_utf8(space ? U' ' : c, out);
}

class ByteLevelNormalizer final : public Normalizer {
 public:
  std::string normalize(std::string_view text, GrowthBudget&) const override {
    return byte_characters(text);
  }
  void align(AlignedText& text, GrowthBudget&) const override {
    if (!text.text().empty()) text.transform(byte_changes(text.text()));
  }
};

using Steps = CharacterNormalizer::Steps;

std::unique_ptr<Normalizer> each(CharacterNormalizer::Append append, Steps steps) {
  return std::make_unique<CharacterNormalizer>(append, steps);
}

std::unique_ptr<Normalizer> make_bert(const JsonView& json) {
  const bool lowercase = json.at("lowercase").boolean();
  const auto strip_accents = json.find("strip_accents");
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (json.at("clean_text").boolean()) steps.push_back(each(append_clean, Steps::kDropsAndChanges));
  if (json.at("handle_chinese_chars").boolean())
    steps.push_back(each(append_spaced, Steps::kChanges));
  if (strip_accents ? strip_accents->boolean() : lowercase) {
    const nlohmann::json nfd = {{"type", "NFD"}};
    steps.push_back(make_unicode_form(JsonView(nfd, json.file())));
    steps.push_back(each(append_without_accents, Steps::kDrops));
  }
  if (lowercase) steps.push_back(each(append_lowercase, Steps::kChanges));
  return make_normalizer_sequence(std::move(steps));
}

}  // namespace

std::unique_ptr<Normalizer> make_character_normalizer(const JsonView& json) {
  const std::string type = json.at("type").string();
  if (type == "BertNormalizer") return make_bert(json);
  if (type == "Lowercase") return each(append_lowercase, Steps::kChanges);
  if (type == "Nmt") return each(append_nmt, Steps::kDropsAndChanges);
  if (type == "StripAccents") return each(append_without_marks, Steps::kDrops);
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  return nullptr;
}

}  // namespace tandem
