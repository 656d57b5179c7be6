// Input: a byte for the format, and a document. Translations that change nothing give it back byte
// for byte. Whatever the translations are, all markup is still there, and every text once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "text/documents/readers/html_tokens.h"
#include "text/documents/translatable_document.h"

namespace tandem {
namespace {

// Tags, comments and what is no text, in any order.
std::vector<std::string> markup_of(std::string_view html) {
  std::vector<std::string> out;
  HtmlTokens tokens(html);
  size_t at = 0;
  while (const auto token = tokens.next()) {
    TANDEM_CHECK(token->begin == at && token->end > at);
    at = token->end;
    if (token->kind != HtmlToken::Kind::kText)
      out.emplace_back(html.substr(token->begin, token->end - token->begin));
  }
  TANDEM_CHECK(at == html.size());
  std::sort(out.begin(), out.end());
  return out;
}

size_t count(std::string_view text, std::string_view part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++out;
  return out;
}

std::string reversed(const std::string& text) {
  std::string out;
  for (size_t end = text.size(); end > 0;) {
    const size_t blank = text.find_last_of(' ', end - 1);
    const size_t begin = blank == text.npos ? 0 : blank + 1;
    out += text.substr(begin, end - begin) + " ";
    end = blank == text.npos ? 0 : blank;
  }
  return out;
}

void use(DocumentFormat format, const std::string& source, const DocumentRules& rules) {
  const TranslatableDocument document(format, source, rules, "file");
  const std::vector<std::string>& texts = document.texts();
  for (const std::string& text : texts) TANDEM_CHECK(!text.empty() && text.find('\n') == text.npos);
  if (rules.glossary == nullptr) TANDEM_CHECK(document.with(texts) == source);
  TANDEM_CHECK(document.with(std::vector<std::string>(texts.size())).size() >= source.size() / 2 ||
               rules.glossary != nullptr);
  std::vector<std::string> turned, words;
  for (const std::string& text : texts) turned.push_back(reversed(text));
  for (size_t i = 0; i < texts.size(); ++i) words.push_back("Qz" + std::to_string(i) + "x & <b>*");
  const std::string backwards = document.with(turned), marked = document.with(words);
  if (format == DocumentFormat::kHtml) {
    const std::vector<std::string> markup = markup_of(source);
    TANDEM_CHECK(markup_of(backwards) == markup);
    TANDEM_CHECK(markup_of(marked) == markup);
  }
  if (format == DocumentFormat::kXml) {  // it is still well-formed, and read the same
    const TranslatableDocument again(format, backwards, rules, "file");
    TANDEM_CHECK(again.with(again.texts()) == backwards || rules.glossary != nullptr);
  }
  document.plain_text();
  if (source.find("Qz") != source.npos) return;
  for (size_t i = 0; i < texts.size(); ++i)  // no text is written more often than it stood there
    TANDEM_CHECK(count(marked, "Qz" + std::to_string(i) + "x") <= source.size());
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  if (size == 0) return 0;
  static const Glossary glossary({{"word", "Wort"}, {"two words", "zwei Wörter"}, {"a", "b c"}},
                                 "glossary");
  const auto format = static_cast<DocumentFormat>(data[0] % 6);
  const std::string source(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    use(format, source, {"en", (data[0] & 64) == 0, nullptr, {}});
    use(format, source, {"en", (data[0] & 64) == 0, &glossary, {}});
  } catch (const InputError&) {
  }
  return 0;
}
