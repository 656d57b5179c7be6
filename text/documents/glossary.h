// Words that have a translation of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem {

struct GlossaryMatch {
  size_t begin = 0, end = 0;  // bytes of the text
  std::string_view target;    // of the glossary
};

// Immutable; usable from any thread.
class Glossary {
 public:
  using Entry = std::pair<std::string, std::string>;  // source, target

  // Throws InputError naming `field`: a term that is empty, has a line end or a tab in it, is no
  // UTF-8, or is there twice.
  explicit Glossary(std::vector<Entry> entries, const std::string& field);
  // Tab-separated lines, or comma-separated ones with quotes (RFC 4180), of a source and a target;
  // blank lines are none. Of CSV the languages of DeepL's form may follow, and are ignored.
  static Glossary of_tsv(std::string_view text, const std::string& field);
  static Glossary of_csv(std::string_view text, const std::string& field);

  const std::vector<Entry>& entries() const { return entries_; }
  // Where sources stand in the text as whole words, in its order; none overlap. Of two that begin
  // at one place the longer one counts. Upper and lower case differ.
  std::vector<GlossaryMatch> find(std::string_view text) const;

 private:
  std::vector<Entry> entries_;
  // By the first word of the source: the entries, the longest source first.
  std::unordered_map<std::string_view, std::vector<size_t>> by_word_;
};

}  // namespace tandem
