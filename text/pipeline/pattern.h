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

// Part of a text: a match, or the text between two matches.
struct Span {
  size_t start, end;
  bool matched;
};

// The matches of a string that is not empty. Spans cover the text without a gap, in order.
std::vector<Span> literal_spans(std::string_view text, std::string_view literal);

// Immutable; usable from any thread. Expressions are Oniguruma's, as in the `tokenizers` library.
class Pattern {
 public:
  // Throws InputError naming the key if it is not an expression.
  explicit Pattern(const JsonView& json);

  // Spans cover the text without a gap, in order. Matches may be empty; an empty text has no span.
  // Throws InputError if matching takes too long.
  std::vector<Span> spans(std::string_view text) const;
  // Replaces each match by `content`.
  std::string replace(std::string_view text, std::string_view content) const;
  // The string of a {"String": …}; else empty.
  const std::string& literal() const { return literal_; }
  // Whether matches may be empty.
  bool may_match_nothing() const { return regex_ != nullptr; }

 private:
  struct FreeRegex {
    void operator()(re_pattern_buffer* regex) const;
  };
  void compile(const JsonView& json, const std::string& expression);

  std::string file_, literal_;
  std::unique_ptr<re_pattern_buffer, FreeRegex> regex_;  // null: literal_
};

}  // namespace tandem
