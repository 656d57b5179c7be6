// Words between matches of a pattern ("Split") or of a class of characters ("Digits", …).
#pragma once

#include <memory>
#include <vector>

#include "text/pipeline/pattern.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {

// The treatment of a match: its own word, dropped, joined to a neighbour, or to other matches.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

SplitBehavior read_split_behavior(const JsonView& json);

// `spans` cover the text.
void split_at(const Word& text, std::vector<Span> spans, SplitBehavior behavior,
              const WordSink& sink);

class SplitPreTokenizer final : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(const JsonView& json);
  void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const override;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// "Digits", "Punctuation", "CharDelimiterSplit", "Whitespace", "WhitespaceSplit",
// "BertPreTokenizer", "FixedLength" or "UnicodeScripts"; nullptr: another type.
std::unique_ptr<PreTokenizer> make_character_split(const JsonView& json);

}  // namespace tandem
