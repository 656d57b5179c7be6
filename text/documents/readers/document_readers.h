// The parsers of formats: each finds text and markup in a source, and tells a DocumentFlow. Sources
// are UTF-8.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "text/documents/document_flow.h"

namespace tandem {

// What DeepL's fields say of elements, for HTML and XML. Names as in the source.
struct TagRules {
  std::set<std::string, std::less<>> ignored = {};    // their text is not translated
  std::set<std::string, std::less<>> splitting = {};  // no sentence goes over them
  std::set<std::string, std::less<>> inside = {};     // sentences go over them
  // Of XML: elements beside text are within sentences; else all are, but for those of `splitting`.
  bool detect_outline = true;
};

// The bytes from begin to end of the flow's source, of HTML: a document or a piece of one.
void read_html(DocumentFlow& flow, const TagRules& rules, size_t begin, size_t end);
// XML: a document, or a piece of one without a declaration. Throws InputError naming `field` and
// the line: it is not well-formed.
void read_xml(DocumentFlow& flow, const TagRules& rules, const std::string& field);
// CommonMark with GitHub's tables and strikethrough, and front matter.
void read_markdown(DocumentFlow& flow);
// SubRip (.srt) and WebVTT (.vtt).
void read_subtitles(DocumentFlow& flow);
// Each line is a block.
void read_lines(DocumentFlow& flow);

}  // namespace tandem
