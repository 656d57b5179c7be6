#include "runtime/media/sound/windows/language_search.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {

void LanguageSearch::add(int32_t language, double probability) {
  TANDEM_CHECK(!done());
  ++asked_;
  if (compares() && probability > threshold_) {
    sure_ = true;
    votes_ = {{language, 1}};
    return;
  }
  const auto vote = std::find_if(votes_.begin(), votes_.end(),
                                 [&](const Vote& v) { return v.language == language; });
  if (vote == votes_.end())
    votes_.push_back({language, 1});
  else
    ++vote->windows;
}

int32_t LanguageSearch::language() const {
  TANDEM_CHECK(done() && !votes_.empty());
  return std::max_element(votes_.begin(), votes_.end(),
                          [](const Vote& a, const Vote& b) { return a.windows < b.windows; })
      ->language;
}

}  // namespace tandem
