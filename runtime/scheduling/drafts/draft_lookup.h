// Drafts looked up in the source, in the sequence's own text and in recent ones: the tokens that
// followed the last time a text ended like this (docs/design/scheduling.md §10). It measures itself
// without drafting: it compares each new token with its own prediction. Synchronous; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/scheduling/drafts/hit_rates.h"
#include "runtime/scheduling/drafts/ngram_index.h"
#include "runtime/scheduling/drafts/recent_texts.h"
#include "runtime/scheduling/scheduler_config.h"

namespace tandem {

class DraftLookup {
 public:
  // vocabulary: ids from there on are no drafts (an encoder may have others). `rates` and `recent`
  // must outlive it; nullptr: no other texts.
  DraftLookup(const SpeculationConfig& config, std::span<const int32_t> source, HitRates& rates,
              RecentTexts* recent = nullptr);

  // The sequence's next token. generated: it was chosen, and counts for the rates.
  void append(int32_t token, bool generated);
  size_t num_tokens() const { return num_tokens_; }  // appended so far

  // Puts the predicted tokens into `tokens` (cleared first). Stops before a token that is less
  // likely than `least` to be right, and at `most` tokens. pending: the number of computed but
  // unknown tokens; the prediction begins behind them. Returns how many of them will be right, on
  // average.
  double draft(int pending, int most, double least, std::vector<int32_t>& tokens) const;

  const NgramIndex& index() const { return index_; }
  void check_integrity() const;

 private:
  // The next token is said to be the one at `place`, of index() or of found_.
  struct Next {
    int length = 0;  // so much before it agrees; 0: nothing is said
    size_t place = 0;
    bool is_recent = false;
  };
  std::span<const int32_t> text_of(const Next& next) const {
    return next.is_recent ? std::span<const int32_t>(found_) : index_.text();
  }
  bool says_something(const Next& next) const;
  // Of texts of the kind that next_ is in.
  HitRates& rates() const { return next_.is_recent ? recent_->rates() : rates_; }
  double likelihood(int length) const;
  void predict(bool hit);

  HitRates& rates_;
  RecentTexts* recent_;
  int32_t vocabulary_;
  NgramIndex index_;
  size_t num_tokens_ = 0;
  Next next_;
  std::vector<int32_t> found_;  // a copy of RecentTexts::Match::tokens
  // Of this sequence, the last ones more than those before: hits, and how many the rates expected.
  double hits_ = 0, expected_ = 0;
};

}  // namespace tandem
