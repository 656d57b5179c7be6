#include "runtime/scheduling/drafts/draft_lookup.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {
namespace {

constexpr double kOwnMemory = 0.9;    // of a sequence's own hits: about ten of them
constexpr double kOwnWeight = 3;      // how many it takes to be believed
constexpr double kMostTrials = 4096;  // of the rates; then the older half is forgotten
constexpr double kSurest = 0.98;

}  // namespace

// --- NgramIndex ----------------------------------------------------------------------------------

NgramIndex::NgramIndex(int least, int most)
    : least_(least), most_(most), tables_(static_cast<size_t>(most - least) + 1) {
  TANDEM_CHECK(least > 0 && least <= most, "no such n-grams");
}

void NgramIndex::append(int32_t token) {
  TANDEM_CHECK_GE(token, 0);
  TANDEM_CHECK_LT(text_.size(), size_t{std::numeric_limits<int32_t>::max()});
  // What the token follows has a follower now.
  for (int n = least_; n <= most_ && begin_ + static_cast<size_t>(n) <= text_.size(); ++n)
    insert(tables_[static_cast<size_t>(n - least_)], text_.size(), n);
  text_.push_back(token);
}

void NgramIndex::separate() {
  text_.push_back(kSeparator);
  begin_ = text_.size();
}

// Of the n tokens before `end`.
uint64_t NgramIndex::hash(size_t end, int n) const {
  return hash_tokens(0, text().subspan(end - static_cast<size_t>(n), static_cast<size_t>(n)));
}

// Where the n-gram before `end` is, or an empty slot that it may have. The table has one.
size_t NgramIndex::slot_of(const Table& table, size_t end, int n) const {
  const size_t mask = table.slots.size() - 1;
  const auto size = static_cast<std::ptrdiff_t>(n);
  const auto own = text_.begin() + static_cast<std::ptrdiff_t>(end) - size;
  for (size_t at = hash(end, n) & mask;; at = (at + 1) & mask) {
    const int32_t place = table.slots[at];
    if (place < 0 || std::equal(own, own + size, text_.begin() + place - size)) return at;
  }
}

void NgramIndex::insert(Table& table, size_t end, int n) {
  if (4 * (table.used + 1) > 3 * table.slots.size()) grow(table, n);
  int32_t& slot = table.slots[slot_of(table, end, n)];
  table.used += slot < 0;
  slot = static_cast<int32_t>(end);
}

void NgramIndex::grow(Table& table, int n) const {
  Table larger{std::vector<int32_t>(std::max<size_t>(64, 2 * table.slots.size()), -1), table.used};
  for (const int32_t place : table.slots)
    if (place >= 0) larger.slots[slot_of(larger, static_cast<size_t>(place), n)] = place;
  table = std::move(larger);
}

NgramIndex::Match NgramIndex::find() const {
  const size_t end = text_.size();
  for (int n = std::min<int>(most_, static_cast<int>(end - begin_)); n >= least_; --n) {
    const Table& table = tables_[static_cast<size_t>(n - least_)];
    if (table.slots.empty()) continue;
    const int32_t place = table.slots[slot_of(table, end, n)];
    if (place >= 0) return {n, static_cast<size_t>(place)};
  }
  return {};
}

void NgramIndex::check_integrity() const {
  for (int n = least_; n <= most_; ++n) {
    const Table& table = tables_[static_cast<size_t>(n - least_)];
    TANDEM_CHECK_EQ(table.slots.size() & (table.slots.size() - 1), size_t{0});
    size_t used = 0;
    for (size_t at = 0; at < table.slots.size(); ++at) {
      const int32_t place = table.slots[at];
      if (place < 0) continue;
      ++used;
      TANDEM_CHECK(place >= n && static_cast<size_t>(place) < text_.size(), "no place");
      TANDEM_CHECK_EQ(slot_of(table, static_cast<size_t>(place), n), at);
      TANDEM_CHECK(text_[static_cast<size_t>(place)] != kSeparator, "nothing follows");
    }
    TANDEM_CHECK_EQ(used, table.used);
    TANDEM_CHECK_LE(4 * used, 3 * table.slots.size());
  }
}

// --- DraftLookup ---------------------------------------------------------------------------------

// Before anything is known: the longer, the better, but nothing to rely on.
HitRates::HitRates() {
  for (int i = 0; i < kMostLength; ++i)
    counts_[static_cast<size_t>(i)] = {8 * (i + 1) / (i + 7.0), 8};
}

double HitRates::of(int length) const {
  const Counts& c = counts_[static_cast<size_t>(std::clamp(length, 1, kMostLength)) - 1];
  return c.hits / c.trials;
}

void HitRates::record(int length, bool hit) {
  Counts& c = counts_[static_cast<size_t>(std::clamp(length, 1, kMostLength)) - 1];
  c.trials += 1;
  c.hits += hit;
  if (c.trials < kMostTrials) return;
  c.trials /= 2;
  c.hits /= 2;
}

DraftLookup::DraftLookup(const SpeculationConfig& config, std::span<const int32_t> source,
                         HitRates& rates)
    : rates_(rates), vocabulary_(config.vocabulary), index_(config.lookup_min, config.lookup_max) {
  for (const int32_t token : source) index_.append(token);
  index_.separate();
}

void DraftLookup::append(int32_t token, bool generated) {
  const bool said = next_.length > 0;
  const bool hit = said && index_.text()[next_.place] == token;
  if (said && generated) {
    expected_ = expected_ * kOwnMemory + rates_.of(next_.length);
    hits_ = hits_ * kOwnMemory + hit;
    rates_.record(next_.length, hit);
  }
  index_.append(token);
  ++num_tokens_;
  predict(hit);
}

// A place that was right goes on, unless more of the text agrees elsewhere.
void DraftLookup::predict(bool hit) {
  const NgramIndex::Match found = index_.find();
  const NgramIndex::Match on{next_.length + 1, next_.place + 1};
  const bool goes_on =
      hit && on.length >= found.length && index_.text()[on.place] != NgramIndex::kSeparator;
  next_ = goes_on ? on : found;
}

double DraftLookup::likelihood(int length) const {
  return std::min(rates_.of(length) * (hits_ + kOwnWeight) / (expected_ + kOwnWeight), kSurest);
}

double DraftLookup::draft(int pending, int most, double least, std::vector<int32_t>& tokens) const {
  tokens.clear();
  if (next_.length == 0) return 0;
  const auto text = index_.text();
  const auto skipped = static_cast<size_t>(pending);
  double likely = 1, gain = 0;
  std::vector<int32_t>& said = tokens;  // those that are pending too, first
  for (size_t i = 0; i < skipped + static_cast<size_t>(most); ++i) {
    const size_t place = next_.place + i;
    // Behind the text come the drafts themselves.
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
  TANDEM_CHECK_LT(next_.place, text.size());
  const size_t agreed = std::min<size_t>(static_cast<size_t>(next_.length), num_tokens_);
  TANDEM_CHECK_GE(next_.place, agreed);
  TANDEM_CHECK(std::equal(text.end() - static_cast<std::ptrdiff_t>(agreed), text.end(),
                          text.begin() + static_cast<std::ptrdiff_t>(next_.place - agreed)));
}

}  // namespace tandem
