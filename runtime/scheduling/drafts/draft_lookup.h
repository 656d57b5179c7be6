// What a sequence is likely to go on with, looked up in its source and in its own text: what
// followed the last time that the text ended like this (docs/scheduling.md §10). It watches itself:
// each token that comes is compared with what it would have said, whether that was ever a draft or
// not, so that it knows what a draft is worth without trying. Synchronous; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/scheduling/drafts/ngram_index.h"
#include "runtime/scheduling/scheduler_config.h"

namespace tandem {

// How often what was looked up was right, by how much of the text agreed before; of all sequences
// together. What is long ago counts less.
class HitRates {
 public:
  static constexpr int kMostLength = 16;  // longer agreements count as this

  HitRates();
  double of(int length) const;
  void record(int length, bool hit);

 private:
  struct Counts {
    double hits, trials;
  };
  std::array<Counts, kMostLength> counts_;
};

class DraftLookup {
 public:
  // vocabulary: ids from there on are no drafts (an encoder may have others). `rates` must outlive
  // it.
  DraftLookup(const SpeculationConfig& config, std::span<const int32_t> source, HitRates& rates);

  // The sequence's next token. generated: it was chosen, and counts for the rates.
  void append(int32_t token, bool generated);
  size_t num_tokens() const { return num_tokens_; }  // appended so far

  // What comes next, in `tokens` (cleared first), as far as it is at least `least` likely to be
  // right, `most` tokens at most. pending: so many tokens have come that nobody knows yet; what is
  // said begins behind them. Returns how many of them will be right, on average.
  double draft(int pending, int most, double least, std::vector<int32_t>& tokens) const;

  const NgramIndex& index() const { return index_; }
  void check_integrity() const;

 private:
  double likelihood(int length) const;
  void predict(bool hit);

  HitRates& rates_;
  int32_t vocabulary_;
  NgramIndex index_;
  size_t num_tokens_ = 0;
  NgramIndex::Match next_;  // the next token is said to be the one at its place
  // Of this sequence, the last ones more than those before: hits, and how many the rates expected.
  double hits_ = 0, expected_ = 0;
};

}  // namespace tandem
