// HTML cut into its tokens, each with its place in the source: tags, texts, and what is neither.
// Reads as the HTML standard's tokenizer does, in one pass over any bytes. (There is no tree: its
// rules take quadratic time for some pages, and move texts about.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

struct HtmlToken {
  enum class Kind {
    kText,   // of elements whose text is text; "&amp;" is not replaced
    kRaw,    // the inside of <script>, <style> and others that hold no markup
    kStart,  // a start tag
    kEnd,    // an end tag
    kOther,  // a comment, a doctype, a processing instruction, a tag that the end cuts off
  };
  Kind kind = Kind::kText;
  size_t begin = 0, end = 0;  // bytes of the source
  std::string name;           // of a tag, in lower case
  // Of a start tag: names in lower case, values as they stand there.
  std::vector<std::pair<std::string, std::string_view>> attributes;

  // Empty: the tag has no such attribute, or no value of it.
  std::string_view attribute(std::string_view name) const;
  bool has(std::string_view name) const;
};

class HtmlTokens {
 public:
  explicit HtmlTokens(std::string_view source) : source_(source) {}
  // Tokens cover the source, one behind the other. Nothing: the end.
  std::optional<HtmlToken> next();

 private:
  HtmlToken raw();
  HtmlToken tag(size_t begin);
  size_t attributes(size_t at, HtmlToken& tag) const;
  size_t end_of_other(size_t begin) const;

  std::string_view source_;
  size_t at_ = 0;
  std::string raw_name_;  // of the element that we are in, if its inside is no markup
};

}  // namespace tandem
