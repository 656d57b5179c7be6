#include "runtime/scheduling/drafts/recent_texts.h"

#include <utility>

#include "base/check.h"

namespace tandem {

RecentTexts::RecentTexts(int capacity)
    : half_(static_cast<size_t>(capacity) / 2), now_(kLeast, kMost), before_(kLeast, kMost) {}

void RecentTexts::add(std::span<const int32_t> text) {
  if (text.size() >= half_) text = text.last(half_ > 0 ? half_ - 1 : 0);
  if (text.size() <= size_t{kLeast}) return;  // nothing follows an n-gram of it
  if (now_.text().size() + text.size() + 1 > half_) {
    before_ = std::move(now_);
    now_ = NgramIndex(kLeast, kMost);
  }
  for (const int32_t token : text) now_.append(token);
  now_.separate();
}

RecentTexts::Match RecentTexts::find(std::span<const int32_t> text) const {
  const NgramIndex* of = &now_;
  NgramIndex::Match best = now_.find(text);
  if (const auto older = before_.find(text); older.length > best.length) {
    best = older;
    of = &before_;
  }
  if (best.length == 0) return {};
  const auto length = static_cast<size_t>(best.length);
  const auto tokens = of->text().subspan(best.place - length);
  size_t count = length;
  while (count < tokens.size() && count < length + kFollowing &&
         tokens[count] != NgramIndex::kSeparator)
    ++count;
  return {best.length, tokens.first(count)};
}

void RecentTexts::check_integrity() const {
  for (const NgramIndex* index : {&now_, &before_}) {
    index->check_integrity();
    TANDEM_CHECK_LE(index->text().size(), half_);
  }
}

}  // namespace tandem
