// Texts in which drafts of other sequences are looked up. Synchronous; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/scheduling/drafts/hit_rates.h"
#include "runtime/scheduling/drafts/ngram_index.h"

namespace tandem {

// Texts of sequences that have ended, the last ones: a window of live speech is said again by the
// next one, and many requests differ little from one before.
class RecentTexts {
 public:
  static constexpr int kLeast = 2, kMost = 6;  // tokens of n-grams
  static constexpr size_t kFollowing = 64;     // that are found, at most

  // capacity: tokens that are kept, at most; of them at least half.
  explicit RecentTexts(int capacity);

  void add(std::span<const int32_t> text);
  // The longest n-gram at the text's end that has been before, with what followed it; of equals the
  // last one. Its `length` tokens are the first of `tokens`. length 0: there is none. Valid until
  // the next add().
  struct Match {
    int length = 0;
    std::span<const int32_t> tokens = {};
  };
  Match find(std::span<const int32_t> text) const;

  HitRates& rates() { return rates_; }
  size_t size() const { return now_.text().size() + before_.text().size(); }
  void check_integrity() const;

 private:
  size_t half_;
  NgramIndex now_, before_;  // when the first is full it becomes the second
  HitRates rates_;
};

}  // namespace tandem
