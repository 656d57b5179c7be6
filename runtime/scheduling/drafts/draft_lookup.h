// Drafts looked up in the source and in the sequence's own text: the tokens that followed the last
// time the text ended like this (docs/design/scheduling.md §10). It measures itself without
// drafting: it compares each new token with its own prediction. Synchronous; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/scheduling/scheduler_config.h"

namespace tandem {

// A text that grows, and where its n-grams stand: what followed the last time? Appending and asking
// cost a few hash look-ups, however long the text is.
class NgramIndex {
 public:
  // N-grams of least .. most tokens; 0 < least <= most.
  NgramIndex(int least, int most);

  // token >= 0.
  void append(int32_t token);
  // No n-gram goes across the end of what is there, and nothing follows it: another text begins.
  void separate();
  static constexpr int32_t kSeparator = -1;

  // Where the text's end has been before: the longest of its n-grams counts, of equals the last one
  // that something followed. `place`: of what followed. length 0: nowhere.
  struct Match {
    int length = 0;
    size_t place = 0;
  };
  Match find() const;

  std::span<const int32_t> text() const { return text_; }  // separators included
  // Every entry is found, and counted.
  void check_integrity() const;

 private:
  // Of n-grams of one length: places behind them, in open addressing. Keys are in the text.
  struct Table {
    std::vector<int32_t> slots;  // below 0: empty; a power of two, or none
    size_t used = 0;
  };

  uint64_t hash(size_t end, int n) const;
  size_t slot_of(const Table& table, size_t end, int n) const;
  void insert(Table& table, size_t end, int n);
  void grow(Table& table, int n) const;

  int least_, most_;
  std::vector<int32_t> text_;
  size_t begin_ = 0;           // behind the last separator
  std::vector<Table> tables_;  // of least, least + 1, ...
};

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

  // Puts the predicted tokens into `tokens` (cleared first). Stops before a token that is less
  // likely than `least` to be right, and at `most` tokens. pending: the number of computed but
  // unknown tokens; the prediction begins behind them. Returns how many of them will be right, on
  // average.
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
