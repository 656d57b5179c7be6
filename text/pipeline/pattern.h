// Where a string or a regular expression matches: {"String": …} or {"Regex": …} of tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_json.h"

struct re_pattern_buffer;  // Oniguruma's

namespace tandem {

// Part of a text: a match, or what stands between two.
struct Span {
  size_t start, end;
  bool matched;
};

// Immutable; usable from any thread. Expressions are those of Oniguruma, which the `tokenizers`
// library matches with.
class Pattern {
 public:
  // Throws InputError naming the key for what is no expression.
  explicit Pattern(const JsonView& json);

  // They cover the text without a gap, in order. Matches may be empty; an empty text has no span.
  // Throws InputError where matching takes too long.
  std::vector<Span> spans(std::string_view text) const;
  // Each match by `content`.
  std::string replace(std::string_view text, std::string_view content) const;
  // The string, if it is one that is not empty; else empty.
  const std::string& literal() const { return literal_; }

 private:
  struct FreeRegex {
    void operator()(re_pattern_buffer* regex) const;
  };
  void compile(const JsonView& json, const std::string& expression);
  std::vector<Span> literal_spans(std::string_view text) const;

  std::string file_, literal_;
  std::unique_ptr<re_pattern_buffer, FreeRegex> regex_;  // null: literal_
};

}  // namespace tandem
