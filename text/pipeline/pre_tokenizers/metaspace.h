// SentencePiece's treatment of spaces, as in the library's tokenizers: a symbol stands for each
// space, and words begin with it.
#pragma once

#include <string>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// The settings of the JSON component "Metaspace".
struct Metaspace {
  // Which texts get a leading symbol if they lack one. kAlways: all, including words of other steps
  // and texts behind added tokens. kFirst: only the start of the input. kNever: none.
  enum class Scheme { kAlways, kFirst, kNever };

  explicit Metaspace(const JsonView& json);

  std::string replacement;  // one character
  Scheme scheme = Scheme::kAlways;
  bool split = true;  // before each replacement
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonView& json) : settings_(json) {}
  void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const override;
  void align(const AlignedText& text, GrowthBudget& budget, const AlignedSink& sink) const override;
  bool takes_start() const override { return true; }
  bool asks_for_start() const override { return settings_.scheme == Metaspace::Scheme::kFirst; }

 private:
  bool prepends(bool starts) const;

  Metaspace settings_;
};

}  // namespace tandem
