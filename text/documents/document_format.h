// The formats of documents that are translated with their markup left in place.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

enum class DocumentFormat { kText, kMarkdown, kHtml, kXml, kSrt, kVtt };

// "text", "markdown", "html", "xml", "srt", "vtt", as options and requests name them.
std::optional<DocumentFormat> document_format_named(std::string_view name);
std::string_view name_of(DocumentFormat format);
// By the ending of a file's name, in any case: ".md", ".htm", …
std::optional<DocumentFormat> document_format_of_file(std::string_view file);
// "text/html", of files of the format.
std::string_view media_type_of(DocumentFormat format);
// Endings of files, with commas between them: ".txt, .md, …"
std::string known_document_endings();

}  // namespace tandem
