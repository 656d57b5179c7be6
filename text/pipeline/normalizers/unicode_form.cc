// Normal forms by ICU, limited to the characters of Unicode 9: the library's tables are as old, and
// leave newer characters alone.
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

using Changes = std::vector<AlignedText::Change>;

// Characters in front of which no other of a higher combining class may stand: sorted from the last
// starter on.
class Decomposer {
 public:
  explicit Decomposer(const icu::Normalizer2& form) : form_(form) {}

  Changes all(std::string_view text) {
    for (const AlignedText::Change& next : unchanged(text)) {
      icu::UnicodeString parts;
      if (!form_.getDecomposition(static_cast<UChar32>(next.character), parts))
        parts = static_cast<UChar32>(next.character);
      for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1))
        add(parts.char32At(i), i == 0 ? 0 : 1);
    }
    sort();
    return std::move(out_);
  }

 private:
  void add(UChar32 c, int change) {
    if (form_.getCombiningClass(c) == 0) sort();
    out_.push_back({static_cast<char32_t>(c), change});
  }
  void sort() {
    const auto class_of = [&](const AlignedText::Change& change) {
      return form_.getCombiningClass(static_cast<UChar32>(change.character));
    };
    std::stable_sort(out_.begin() + static_cast<ptrdiff_t>(sorted_), out_.end(),
                     [&](const auto& a, const auto& b) { return class_of(a) < class_of(b); });
    sorted_ = out_.size();
  }

  const icu::Normalizer2& form_;
  Changes out_;
  size_t sorted_ = 0;
};

// A composed character replaces its parts: those behind the first one go.
class Composer {
 public:
  explicit Composer(const icu::Normalizer2& form) : form_(form) {}

  Changes all(const Changes& parts) {
    for (const AlignedText::Change& part : parts) add(part);
    end();
    return std::move(out_);
  }

 private:
  void add(const AlignedText::Change& part) {
    const auto c = static_cast<UChar32>(part.character);
    const uint8_t own = form_.getCombiningClass(c);
    if (!starter_) {
      if (own != 0)
        out_.push_back(part);
      else
        starter_ = part;
      return;
    }
    if (!last_class_ || *last_class_ < own) {
      const UChar32 pair = form_.composePair(static_cast<UChar32>(starter_->character), c);
      if (pair >= 0) {
        starter_ = {static_cast<char32_t>(pair), starter_->change + part.change - 1};
        return;
      }
    }
    if (own == 0) {
      end();
      starter_ = part;
    } else {
      behind_.push_back(part);
      last_class_ = own;
    }
  }
  void end() {
    if (starter_) out_.push_back(*starter_);
    out_.insert(out_.end(), behind_.begin(), behind_.end());
    behind_.clear();
    starter_.reset();
    last_class_.reset();
  }

  const icu::Normalizer2& form_;
  Changes out_, behind_;
  std::optional<AlignedText::Change> starter_;
  std::optional<uint8_t> last_class_;
};

class UnicodeForm final : public Normalizer {
 public:
  UnicodeForm(const icu::Normalizer2& form, bool composes)
      : form_(form, old_characters()), composes_(composes) {}
  std::string normalize(std::string_view text, GrowthBudget&) const override {
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
  void align(AlignedText& text, GrowthBudget&) const override {
    Changes changes = Decomposer(form_).all(text.text());
    text.transform(composes_ ? Composer(form_).all(changes) : changes);
  }
  // Marks change places, and then parts of the text come from no part of the input.
  bool misaligns(bool, bool parts) const override { return parts; }

 private:
  icu::FilteredNormalizer2 form_;
  bool composes_;
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
  const std::string& name = json.at("type").string();
  const icu::Normalizer2* form = named_form(name);
  return form ? std::make_unique<UnicodeForm>(*form, name.ends_with('C')) : nullptr;
}

}  // namespace tandem
