#include "text/pipeline/pre_tokenizers/split.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace tandem {
namespace {

std::vector<Span> merge(std::vector<Span> spans, SplitBehavior behavior) {
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(spans.begin(), spans.end());
  std::vector<Span> merged;
  bool previous = false;
  for (const Span& span : spans) {
    const bool joins = behavior == SplitBehavior::kContiguous ? span.matched == previous
                                                              : span.matched && !previous;
    previous = span.matched;
    if (!joins || merged.empty()) {
      merged.push_back(span);
    } else if (backwards) {
      merged.back().start = span.start;
    } else {
      merged.back().end = span.end;
    }
  }
  if (backwards) std::reverse(merged.begin(), merged.end());
  return merged;
}

}  // namespace

SplitBehavior read_split_behavior(const JsonView& json) {
  static constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kBehaviors = {{
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  const auto found = std::find_if(kBehaviors.begin(), kBehaviors.end(),
                                  [&](const auto& entry) { return json.string() == entry.first; });
  if (found == kBehaviors.end()) json.fail("there is no behaviour " + json.string());
  return found->second;
}

void split_at(const Word& text, std::vector<Span> spans, SplitBehavior behavior,
              const WordSink& sink) {
  const bool removes = behavior == SplitBehavior::kRemoved;
  if (!removes && behavior != SplitBehavior::kIsolated) spans = merge(std::move(spans), behavior);
  for (const Span& span : spans) {
    if (span.start == span.end || (removes && span.matched)) continue;
    sink({text.text.substr(span.start, span.end - span.start)});
  }
}

SplitPreTokenizer::SplitPreTokenizer(const JsonView& json)
    : pattern_(json.at("pattern")),
      behavior_(read_split_behavior(json.at("behavior"))),
      invert_(json.at("invert").boolean()) {}

void SplitPreTokenizer::split(const Word& text, GrowthBudget&, const WordSink& sink) const {
  std::vector<Span> spans = pattern_.spans(text.text);
  if (invert_)
    for (Span& span : spans) span.matched = !span.matched;
  split_at(text, std::move(spans), behavior_, sink);
}

}  // namespace tandem
