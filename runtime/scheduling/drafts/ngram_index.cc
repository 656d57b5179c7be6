#include "runtime/scheduling/drafts/ngram_index.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "runtime/scheduling/source_key.h"

namespace tandem {

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

// Where the n-gram is, or an empty slot that it may have. The table has one.
size_t NgramIndex::slot_of(const Table& table, std::span<const int32_t> ngram) const {
  const size_t mask = table.slots.size() - 1;
  const auto size = std::ssize(ngram);
  for (size_t at = hash_tokens(0, ngram) & mask;; at = (at + 1) & mask) {
    const int32_t place = table.slots[at];
    if (place < 0 || std::equal(ngram.begin(), ngram.end(), text_.begin() + place - size))
      return at;
  }
}

void NgramIndex::insert(Table& table, size_t end, int n) {
  if (4 * (table.used + 1) > 3 * table.slots.size()) grow(table, n);
  int32_t& slot = table.slots[slot_of(table, ngram_before(end, n))];
  table.used += slot < 0;
  slot = static_cast<int32_t>(end);
}

void NgramIndex::grow(Table& table, int n) const {
  Table larger{std::vector<int32_t>(std::max<size_t>(64, 2 * table.slots.size()), -1), table.used};
  for (const int32_t place : table.slots)
    if (place >= 0)
      larger.slots[slot_of(larger, ngram_before(static_cast<size_t>(place), n))] = place;
  table = std::move(larger);
}

NgramIndex::Match NgramIndex::find(std::span<const int32_t> text) const {
  for (int n = static_cast<int>(std::min<size_t>(static_cast<size_t>(most_), text.size()));
       n >= least_; --n) {
    const Table& table = tables_[static_cast<size_t>(n - least_)];
    if (table.slots.empty()) continue;
    const int32_t place = table.slots[slot_of(table, text.last(static_cast<size_t>(n)))];
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
      TANDEM_CHECK_EQ(slot_of(table, ngram_before(static_cast<size_t>(place), n)), at);
      TANDEM_CHECK(text_[static_cast<size_t>(place)] != kSeparator, "nothing follows");
    }
    TANDEM_CHECK_EQ(used, table.used);
    TANDEM_CHECK_LE(4 * used, 3 * table.slots.size());
  }
}

}  // namespace tandem
