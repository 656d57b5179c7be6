#include "runtime/scheduling/drafts/draft_lookup.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kOwnMemory = 0.9;  // of a sequence's own hits: about ten of them
constexpr double kOwnWeight = 3;    // how many it takes to be believed
constexpr double kSurest = 0.98;

}  // namespace

DraftLookup::DraftLookup(const SpeculationConfig& config, std::span<const int32_t> source,
                         HitRates& rates, RecentTexts* recent)
    : rates_(rates),
      recent_(recent),
      vocabulary_(config.vocabulary),
      index_(config.lookup_min, config.lookup_max) {
  for (const int32_t token : source) index_.append(token);
  index_.separate();
}

void DraftLookup::append(int32_t token, bool generated) {
  const bool said = next_.length > 0;
  const bool hit = said && text_of(next_)[next_.place] == token;
  if (said && generated) {
    expected_ = expected_ * kOwnMemory + rates().of(next_.length);
    hits_ = hits_ * kOwnMemory + hit;
    rates().record(next_.length, hit);
  }
  index_.append(token);
  ++num_tokens_;
  predict(hit);
}

bool DraftLookup::says_something(const Next& next) const {
  const auto text = text_of(next);
  return next.place < text.size() && text[next.place] != NgramIndex::kSeparator;
}

// A place that was right goes on, unless more of the text agrees elsewhere: in its own text and the
// source, else in recent ones.
void DraftLookup::predict(bool hit) {
  const Next on{next_.length + 1, next_.place + 1, next_.is_recent};
  const bool goes_on = hit && says_something(on);
  const NgramIndex::Match own = index_.find();
  RecentTexts::Match other;
  if (recent_ != nullptr && !(goes_on && on.length >= RecentTexts::kMost))
    other = recent_->find(index_.text().last(num_tokens_));
  if (goes_on && on.length >= std::max(own.length, other.length)) {
    next_ = on;
  } else if (own.length >= other.length) {
    next_ = {own.length, own.place, false};
  } else {
    found_.assign(other.tokens.begin(), other.tokens.end());
    next_ = {other.length, static_cast<size_t>(other.length), true};
  }
}

double DraftLookup::likelihood(int length) const {
  return std::min(rates().of(length) * (hits_ + kOwnWeight) / (expected_ + kOwnWeight), kSurest);
}

double DraftLookup::draft(int pending, int most, double least, std::vector<int32_t>& tokens) const {
  tokens.clear();
  if (next_.length == 0) return 0;
  const auto text = text_of(next_);
  const auto skipped = static_cast<size_t>(pending);
  double likely = 1, gain = 0;
  std::vector<int32_t>& said = tokens;  // those that are pending too, first
  for (size_t i = 0; i < skipped + static_cast<size_t>(most); ++i) {
    const size_t place = next_.place + i;
    if (next_.is_recent && place >= text.size()) break;
    // Behind its own text come the drafts themselves.
    const int32_t token = place < text.size() ? text[place] : said[place - text.size()];
    likely *= likelihood(next_.length + static_cast<int>(i));
    if (token < 0 || token >= vocabulary_ || likely < least) break;
    if (i >= skipped) gain += likely;
    said.push_back(token);
  }
  tokens.erase(tokens.begin(),
               tokens.begin() + std::min(std::ssize(tokens), static_cast<std::ptrdiff_t>(pending)));
  return gain;
}

void DraftLookup::check_integrity() const {
  index_.check_integrity();
  const auto text = index_.text();
  TANDEM_CHECK_GE(text.size(), num_tokens_ + 1);
  TANDEM_CHECK_EQ(text[text.size() - num_tokens_ - 1], NgramIndex::kSeparator);
  TANDEM_CHECK(hits_ >= 0 && expected_ >= 0);
  if (next_.length == 0) return;
  // What agrees before the place: as much as is said, as far as texts go.
  const auto of = text_of(next_);
  TANDEM_CHECK_LT(next_.place, of.size());
  const size_t agreed = std::min<size_t>(static_cast<size_t>(next_.length), num_tokens_);
  TANDEM_CHECK_GE(next_.place, agreed);
  TANDEM_CHECK(std::equal(text.end() - static_cast<std::ptrdiff_t>(agreed), text.end(),
                          of.begin() + static_cast<std::ptrdiff_t>(next_.place - agreed)));
}

}  // namespace tandem
