#include "text/documents/glossary.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/strings/readable_text.h"
#include "base/strings/utf8.h"
#include "text/documents/words.h"
#include "text/sentences.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

constexpr size_t kLongestTerm = 1024;  // bytes, as DeepL

// The word, or the character that is none, at a place of the text.
std::string_view word_at(std::string_view text, size_t at) {
  size_t end = at;
  do {
    const CodePoint c = code_point_at(text, end);
    end += static_cast<size_t>(c.length);
    if (!is_word(c.value)) break;
  } while (is_within_word(text, end));
  return text.substr(at, end - at);
}

void check_term(const std::string& term, size_t line, const std::string& field) {
  const std::string where = "entry " + std::to_string(line) + ": ";
  if (const size_t at = find_invalid_utf8(term); at != term.npos)
    throw invalid_request(field, where + "is not UTF-8");
  if (with_single_blanks(term).empty()) throw invalid_request(field, where + "a term is empty");
  if (term.size() > kLongestTerm)
    throw invalid_request(
        field, where + "a term is longer than " + std::to_string(kLongestTerm) + " bytes");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(term.begin(), term.end(), is_control))
    throw invalid_request(field, where + "a term has a control character");
}

// The fields of one line of CSV, which is taken from the text.
std::vector<std::string> take_csv_line(std::string_view& text, size_t line,
                                       const std::string& field) {
  std::vector<std::string> out(1);
  bool quoted = false;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
      out.back() += c;
      ++at;
    } else if (c == '"' && (quoted || out.back().empty())) {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      out.emplace_back();
    } else if (!quoted && c == '\n') {
      break;
    } else {
      out.back() += c;
    }
  }
  if (quoted)
    throw invalid_request(field, "entry " + std::to_string(line) + ": a quote has no end");
  text.remove_prefix(std::min(at + 1, text.size()));
  if (out.back().ends_with('\r')) out.back().pop_back();
  return out;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

}  // namespace

Glossary::Glossary(std::vector<Entry> entries, const std::string& field)
    : entries_(std::move(entries)) {
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < entries_.size(); ++i) {
    auto& [source, target] = entries_[i];
    for (std::string* term : {&source, &target}) {
      check_term(*term, i + 1, field);
      *term = with_single_blanks(*term);
    }
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string& source = entries_[i].first;
    if (!seen.insert(source).second)
      throw invalid_request(field, "entry " + std::to_string(i + 1) + ": \"" +
                                       readable(source.substr(0, 80)) + "\" is there twice");
    by_word_[word_at(source, 0)].push_back(i);
  }
  for (auto& [word, of_word] : by_word_)
    std::stable_sort(of_word.begin(), of_word.end(), [&](size_t a, size_t b) {
      return entries_[a].first.size() > entries_[b].first.size();
    });
}

Glossary Glossary::of_tsv(std::string_view text, const std::string& field) {
  std::vector<Entry> entries;
  text = without_mark(text);
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    const size_t tab = line.find('\t');
    if (tab == line.npos || line.find('\t', tab + 1) != line.npos)
      throw invalid_request(
          field, "line " + std::to_string(number) + " is not two terms with a tab between them");
    entries.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return Glossary(std::move(entries), field);
}

Glossary Glossary::of_csv(std::string_view text, const std::string& field) {
  std::vector<Entry> entries;
  text = without_mark(text);
  for (size_t number = 1; !text.empty(); ++number) {
    std::vector<std::string> fields = take_csv_line(text, number, field);
    if (fields.size() == 1 && fields[0].find_first_not_of(" \t") == std::string::npos) continue;
    if (fields.size() < 2 || fields.size() > 4)
      throw invalid_request(
          field, "entry " + std::to_string(number) + " is not two terms with a comma between them");
    entries.emplace_back(std::move(fields[0]), std::move(fields[1]));
  }
  return Glossary(std::move(entries), field);
}

std::vector<GlossaryMatch> Glossary::find(std::string_view text) const {
  std::vector<GlossaryMatch> out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view word = word_at(text, at);
    size_t next = at + word.size();
    if (const auto it = by_word_.find(word); it != by_word_.end()) {
      for (const size_t i : it->second) {
        const auto& [source, target] = entries_[i];
        if (!text.substr(at).starts_with(source) || is_within_word(text, at + source.size()))
          continue;
        next = at + source.size();
        out.push_back({at, next, target});
        break;
      }
    }
    at = next;
  }
  return out;
}

}  // namespace tandem
