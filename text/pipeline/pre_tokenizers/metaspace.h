// SentencePiece's way with spaces, as tokenizers of the library have it: a symbol stands for each,
// and words begin with it.
#pragma once

#include <string>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

// The settings of the JSON component "Metaspace".
struct Metaspace {
  // Which texts get a symbol before them, where they do not begin with one: words of other steps
  // and texts behind added tokens, too; only what the input begins with; none.
  enum class Scheme { kAlways, kFirst, kNever };

  explicit Metaspace(const JsonView& json);

  std::string replacement;  // one character
  Scheme scheme = Scheme::kAlways;
  bool split = true;  // before each replacement
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonView& json) : settings_(json) {}
  void split(const Word& text, const WordSink& sink) const override;
  bool asks_for_start() const override { return settings_.scheme == Metaspace::Scheme::kFirst; }

 private:
  Metaspace settings_;
};

}  // namespace tandem
