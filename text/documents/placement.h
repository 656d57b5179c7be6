// Where the markup of a sentence goes in its translation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "text/documents/marked_text.h"
#include "text/documents/words.h"

namespace tandem {

// Bytes of the translation.
struct PlacedRange {
  size_t begin = 0, end = 0;
};

// The sentence is translated whole, the text of each pair of tags once more by itself. Where the
// sentence's translation has that of the pair, the tags go around it. Other markup goes where it
// stood in proportion, between words. A sentence whose fixed texts the model has changed is put
// together of the translations of what is between them.
class Placement {
 public:
  // translations: of the document's texts. Both outlive this.
  Placement(const MarkedText& of, const std::vector<std::string>& translations);

  const std::string& translated() const { return translated_; }
  // The places of markup and fixed texts, in the order in which they are written.
  std::vector<size_t> order() const;
  PlacedRange place(size_t part) const { return *places_[part]; }

 private:
  // A place in the text that is known in the translation too.
  struct Anchor {
    size_t from = 0, to = 0;
  };
  std::string translation(int text) const {
    return with_single_blanks(translations_.at(static_cast<size_t>(text)));
  }
  bool find_fixed();
  void join_runs();
  void find_pairs();
  bool is_consistent() const;
  void place_in_order();
  std::vector<Anchor> keep_ordered();
  void widen_empty_pairs();
  size_t text_size() const { return of_.text.size(); }

  const MarkedText& of_;
  const std::vector<std::string>& translations_;
  std::string translated_;
  std::vector<std::optional<PlacedRange>> places_;  // in the translation, of markup and fixed texts
  std::vector<std::optional<size_t>> partners_;     // of the parts of pairs
};

}  // namespace tandem
