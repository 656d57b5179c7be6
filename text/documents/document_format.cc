#include "text/documents/document_format.h"

#include <algorithm>
#include <iterator>

namespace tandem {
namespace {

struct FormatName {
  DocumentFormat format;
  std::string_view name, media_type;
};
constexpr FormatName kFormats[] = {
    {DocumentFormat::kText, "text", "text/plain; charset=utf-8"},
    {DocumentFormat::kMarkdown, "markdown", "text/markdown; charset=utf-8"},
    {DocumentFormat::kHtml, "html", "text/html; charset=utf-8"},
    {DocumentFormat::kXml, "xml", "application/xml"},
    {DocumentFormat::kSrt, "srt", "application/x-subrip; charset=utf-8"},
    {DocumentFormat::kVtt, "vtt", "text/vtt; charset=utf-8"}};

struct FileEnding {
  std::string_view ending;
  DocumentFormat format;
};
constexpr FileEnding kEndings[] = {{".txt", DocumentFormat::kText},
                                   {".md", DocumentFormat::kMarkdown},
                                   {".markdown", DocumentFormat::kMarkdown},
                                   {".html", DocumentFormat::kHtml},
                                   {".htm", DocumentFormat::kHtml},
                                   {".xhtml", DocumentFormat::kHtml},
                                   {".xml", DocumentFormat::kXml},
                                   {".srt", DocumentFormat::kSrt},
                                   {".vtt", DocumentFormat::kVtt}};

}  // namespace

std::optional<DocumentFormat> document_format_named(std::string_view name) {
  for (const FormatName& one : kFormats)
    if (one.name == name) return one.format;
  return std::nullopt;
}

std::string_view name_of(DocumentFormat format) {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [&](const FormatName& one) { return one.format == format; })
      ->name;
}

std::string_view media_type_of(DocumentFormat format) {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [&](const FormatName& one) { return one.format == format; })
      ->media_type;
}

std::optional<DocumentFormat> document_format_of_file(std::string_view file) {
  std::string name(file);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const FileEnding& one : kEndings)
    if (name.size() > one.ending.size() && name.ends_with(one.ending)) return one.format;
  return std::nullopt;
}

std::string known_document_endings() {
  std::string out;
  for (const FileEnding& one : kEndings) out += (out.empty() ? "" : ", ") + std::string(one.ending);
  return out;
}

}  // namespace tandem
