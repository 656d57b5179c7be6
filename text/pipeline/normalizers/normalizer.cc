// Stripping, prepending, replacing; and the table of the normalizers that there are.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pipeline/normalizers/normalizer_steps.h"
#include "text/pipeline/normalizers/precompiled.h"
#include "text/pipeline/pattern.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

// White space at the ends.
class StripNormalizer final : public Normalizer {
 public:
  explicit StripNormalizer(const JsonView& json)
      : left_(json.at("strip_left").boolean()), right_(json.at("strip_right").boolean()) {}
  std::string normalize(std::string_view text, GrowthBudget&) const override {
    while (left_ && begins_with_space(text))
      text.remove_prefix(static_cast<size_t>(code_point_at(text, 0).length));
    while (right_ && !text.empty()) {
      const size_t last = previous_position(text, text.size());
      if (!is_space(code_point_at(text, last).value)) break;
      text = text.substr(0, last);
    }
    return std::string(text);
  }
  // At each end with a step of its own, unless both ends are stripped.
  void align(AlignedText& text, GrowthBudget&) const override {
    if (left_ && right_) return strip(text, true, true);
    if (left_) strip(text, true, false);
    if (right_) strip(text, false, true);
  }

 private:
  static bool begins_with_space(std::string_view text) {
    return !text.empty() && is_space(code_point_at(text, 0).value);
  }

  static void strip(AlignedText& text, bool left, bool right) {
    std::vector<AlignedText::Change> changes = unchanged(text.text());
    const size_t count = changes.size();
    const auto space = [&](size_t i) { return is_space(changes[i].character); };
    size_t leading = 0, trailing = 0;
    while (left && leading < count && space(leading)) ++leading;
    while (right && trailing < count && space(count - 1 - trailing)) ++trailing;
    if (leading == 0 && trailing == 0) return;
    // The library takes the number of bytes for that of characters here.
    const size_t last = text.text().size() - trailing - 1;
    if (last < count) changes[last].change = -static_cast<int>(trailing);
    const size_t end = std::max(leading, count - trailing);
    changes.erase(changes.begin() + static_cast<ptrdiff_t>(end), changes.end());
    changes.erase(changes.begin(), changes.begin() + static_cast<ptrdiff_t>(leading));
    text.transform(changes, leading);
  }

  bool left_, right_;
};

// A string before each text that is not empty.
class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(const JsonView& json) : before_(json.at("prepend").string()) {}
  std::string normalize(std::string_view text, GrowthBudget& budget) const override {
    budget.check(0, before_.size());
    return text.empty() ? std::string() : before_ + std::string(text);
  }
  void align(AlignedText& text, GrowthBudget& budget) const override {
    budget.check(0, before_.size());
    text.prepend(before_);
  }
  bool transforms() const override { return false; }
  bool misaligns(bool behind, bool) const override { return behind && before_.empty(); }

 private:
  std::string before_;
};

// Each match of a pattern by a string.
class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonView& json)
      : pattern_(json.at("pattern")), content_(json.at("content").string()) {}
  std::string normalize(std::string_view text, GrowthBudget& budget) const override {
    const std::vector<Span> spans = pattern_.spans(text);
    check_size(text, spans, budget);
    std::string out;
    for (const Span& span : spans)
      out += span.matched ? content_ : text.substr(span.start, span.end - span.start);
    return out;
  }
  void align(AlignedText& text, GrowthBudget& budget) const override {
    const std::vector<Span> spans = pattern_.spans(text.text());
    check_size(text.text(), spans, budget);
    text.replace(spans, content_);
  }
  bool transforms() const override { return false; }
  // An empty match at the start comes from nothing.
  bool misaligns(bool behind, bool) const override {
    return behind && pattern_.may_match_nothing();
  }

 private:
  void check_size(std::string_view text, const std::vector<Span>& spans,
                  const GrowthBudget& budget) const {
    size_t after = 0;
    for (const Span& span : spans) after += span.matched ? content_.size() : span.end - span.start;
    budget.check(text.size(), after);
  }

  Pattern pattern_;
  std::string content_;
};

std::unique_ptr<Normalizer> make_normalizer_step(const JsonView& json) {
  const JsonView type = json.at("type");
  if (auto form = make_unicode_form(json)) return form;
  if (auto step = make_character_normalizer(json)) return step;
  if (type.string() == "Precompiled") return std::make_unique<PrecompiledNormalizer>(json);
  if (type.string() == "Strip") return std::make_unique<StripNormalizer>(json);
  if (type.string() == "Prepend") return std::make_unique<PrependNormalizer>(json);
  if (type.string() == "Replace") return std::make_unique<ReplaceNormalizer>(json);
  type.fail_unsupported("there is no normalizer " + type.string());
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonView& json) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonView& part : flat_parts(json, "normalizers"))
    steps.push_back(make_normalizer_step(part));
  return make_normalizer_sequence(std::move(steps));
}

}  // namespace tandem
