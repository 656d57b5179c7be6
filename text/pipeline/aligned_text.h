// A text that remembers what part of the input each of its bytes came from, as the tokenizers
// library keeps its texts. Its stages change ranges of the *input*; where alignments overlap, or a
// text begins with what came from nothing, that shows in the text, and so in the ids.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/pattern.h"

namespace tandem {

// Thrown where the library fails on a text. There is no right answer then.
struct Misaligned {};

// Strings are UTF-8. Owned by the thread that makes it.
class AlignedText {
 public:
  explicit AlignedText(std::string_view input);  // each character comes from itself

  // What a step makes of a text, character by character.
  struct Change {
    char32_t character;
    int change;  // 1: is new; 0: replaces the next character; -n: the same, and n behind it go
  };

  const std::string& text() const { return text_; }
  // Whether it comes from where the whole input begins.
  bool starts() const { return shift_ == 0; }

  // Replaces all that comes from the input; first, `removed_first` characters go.
  void transform(const std::vector<Change>& changes, size_t removed_first = 0);
  template <class Keeps>
  void filter(const Keeps& keeps);
  void prepend(std::string_view before);  // to a text that is not empty
  // Each match by `content`. `spans` cover the text.
  void replace(const std::vector<Span>& spans, std::string_view content);
  // Whole characters, from `begin` to `end`.
  AlignedText slice(size_t begin, size_t end) const;

 private:
  // Bytes of the input, from the one at which this text's part of it starts. As in the library, an
  // offset in front of that wraps around.
  struct Origin {
    size_t begin, end;
  };
  struct Range {
    size_t begin, end;
  };
  AlignedText() = default;
  bool from_input(Range& range) const;  // false: nothing is
  void change(Range range, const std::vector<Change>& changes, size_t removed_first);
  Origin origin_before(size_t at) const;

  std::string text_;
  std::vector<Origin> origins_;  // of each byte
  size_t input_size_ = 0, shift_ = 0;
};

// The characters of a text, one by one, as changes that change nothing.
std::vector<AlignedText::Change> unchanged(std::string_view text);

template <class Keeps>
void AlignedText::filter(const Keeps& keeps) {
  std::vector<Change> kept;
  size_t removed_first = 0;
  for (const Change& next : unchanged(text_)) {
    if (keeps(next.character))
      kept.push_back(next);
    else if (kept.empty())
      ++removed_first;
    else
      --kept.back().change;
  }
  transform(kept, kept.empty() ? 0 : removed_first);
}

}  // namespace tandem
