// "Split": a pre-tokenizer that cuts the text where a regular expression or a string matches.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/text_pipeline.h"

struct pcre2_real_code_8;

namespace tandem {

class SplitPreTokenizer : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(const JsonView& json);
  void split(std::string_view text, const TextSink& word) const override;

 private:
  // What becomes of a match: a word of its own, dropped, glued to a neighbour, or to other matches.
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Range {
    size_t start, end;
    bool matched;
  };

  void compile(const JsonView& pattern, const std::string& expression);
  std::vector<Range> find_ranges(std::string_view text) const;
  std::vector<Range> merge_ranges(std::vector<Range> ranges) const;

  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::string where_;  // file and key, for errors while matching
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  Behavior behavior_ = Behavior::kIsolated;
  bool invert_ = false;
};

// The library's expressions are Oniguruma's, in Ruby's syntax. PCRE2 reads them alike but for the
// classes \s, \w and \h, which this spells out, and for sets within classes, which are not
// supported.
std::string translate_expression(const JsonView& json);

}  // namespace tandem
