#include "text/pipeline/normalizers/precompiled.h"

#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/strings/base64.h"
#include "base/strings/utf8.h"

namespace tandem {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes

std::string bytes_of(const JsonView& json) {
  auto bytes = decode_base64(json.string());
  if (!bytes) json.fail("is not Base64");
  return std::move(*bytes);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 128; });
}

// Calls `cluster` with each extended grapheme cluster.
template <class Cluster>
void each_cluster(std::string_view text, const Cluster& cluster) {
  if (is_ascii(text)) {
    for (size_t at = 0; at < text.size();) {
      const size_t length = text.substr(at).starts_with("\r\n") ? 2 : 1;
      cluster(text.substr(at, length));
      at += length;
    }
    return;
  }
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  const std::unique_ptr<UText, decltype(&utext_close)> view(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status),
      &utext_close);
  TANDEM_CHECK(U_SUCCESS(status));
  breaks->setText(view.get(), status);
  TANDEM_CHECK(U_SUCCESS(status));
  size_t begin = 0;
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; end = breaks->next()) {
    cluster(text.substr(begin, static_cast<size_t>(end) - begin));
    begin = static_cast<size_t>(end);
  }
}

// As the library counts them: new characters are the last ones of all that is made so far.
void append_changes(std::string_view part, std::string_view replacement,
                    std::vector<AlignedText::Change>& changes) {
  const std::vector<AlignedText::Change> made = unchanged(replacement);
  const size_t before = unchanged(part).size();
  changes.insert(changes.end(), made.begin(), made.end());
  for (size_t i = before; i < made.size(); ++i)
    changes[changes.size() - 1 - (i - before)].change = 1;
  if (made.size() < before && !changes.empty())
    changes.back().change -= static_cast<int>(before - made.size());
}

}  // namespace

PrecompiledNormalizer::PrecompiledNormalizer(const JsonView& json)
    : charsmap_(bytes_of(json.at("precompiled_charsmap")), json.file()) {}

std::optional<std::string_view> PrecompiledNormalizer::replacement(std::string_view part) const {
  const Charsmap::Match match = charsmap_.find_shortest(part);
  return match.length > 0 ? std::optional(match.replacement) : std::nullopt;
}

std::string PrecompiledNormalizer::normalize(std::string_view text, GrowthBudget& budget) const {
  std::string out;
  const auto append = [&](std::string_view part) {
    const auto made = replacement(part);
    if (!made) return false;
    budget.check(text.size(), out.size() + made->size());
    out += *made;
    return true;
  };
  each_cluster(text, [&](std::string_view cluster) {
    if (cluster.size() <= kLongestCluster && append(cluster)) return;
    while (!cluster.empty()) {
      const auto length = static_cast<size_t>(code_point_at(cluster, 0).length);
      const std::string_view character = cluster.substr(0, length);
      if (!append(character)) out += character;
      cluster.remove_prefix(length);
    }
  });
  return out;
}

void PrecompiledNormalizer::align(AlignedText& text, GrowthBudget& budget) const {
  std::vector<AlignedText::Change> changes;
  bool modified = false;
  const auto append = [&](std::string_view part) {
    const auto made = replacement(part);
    if (!made) return false;
    budget.check(text.text().size(), changes.size() + made->size());
    append_changes(part, *made, changes);
    return modified = true;
  };
  each_cluster(text.text(), [&](std::string_view cluster) {
    if (cluster.size() <= kLongestCluster && append(cluster)) return;
    for (const AlignedText::Change& next : unchanged(cluster)) {
      std::string character;
      append_utf8(next.character, character);
      if (!append(character)) changes.push_back(next);
    }
  });
  if (modified) text.transform(changes);
}

}  // namespace tandem
