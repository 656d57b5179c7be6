// Where n-grams of tokens have been in a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  Match find() const { return find(text().subspan(begin_)); }
  // The same of another text's end.
  Match find(std::span<const int32_t> text) const;

  std::span<const int32_t> text() const { return text_; }  // separators included
  // Every entry is found, and counted.
  void check_integrity() const;

 private:
  // Of n-grams of one length: places behind them, in open addressing. Keys are in the text.
  struct Table {
    std::vector<int32_t> slots;  // below 0: empty; a power of two, or none
    size_t used = 0;
  };

  std::span<const int32_t> ngram_before(size_t end, int n) const {
    return text().subspan(end - static_cast<size_t>(n), static_cast<size_t>(n));
  }
  size_t slot_of(const Table& table, std::span<const int32_t> ngram) const;
  void insert(Table& table, size_t end, int n);
  void grow(Table& table, int n) const;

  int least_, most_;
  std::vector<int32_t> text_;
  size_t begin_ = 0;           // behind the last separator
  std::vector<Table> tables_;  // of least, least + 1, ...
};

}  // namespace tandem
