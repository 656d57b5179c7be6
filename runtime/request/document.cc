#include "runtime/request/document.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "base/strings/utf8.h"
#include "text/sentences.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

// The last of `ends` at which a piece that begins at `begin` fits; 0: none. `ends` ascend. A longer
// piece is taken to have more tokens than a shorter one. Looks no further than twice what fits.
size_t longest_fit(std::string_view text, size_t begin, std::span<const size_t> ends,
                   const FitsModel& fits) {
  const auto fits_until = [&](size_t i) { return fits(text.substr(begin, ends[i] - begin)); };
  size_t least = 0, most = 1;  // ends before `least` fit
  while (most <= ends.size() && fits_until(most - 1)) {
    least = most;
    most *= 2;
  }
  most = std::min(most - 1, ends.size());  // the end at `most`, if there is one, does not fit
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    if (fits_until(middle))
      least = middle + 1;
    else
      most = middle;
  }
  return least == 0 ? 0 : ends[least - 1];
}

std::vector<size_t> character_ends(std::string_view text, size_t begin, size_t end) {
  std::vector<size_t> out;
  for (size_t at = begin; at < end;) {
    at += static_cast<size_t>(code_point_at(text, at).length);
    out.push_back(at);
  }
  return out;
}

// Cuts a sentence that does not fit. The pieces are the span, white space at their ends included.
std::vector<TextSpan> cut_sentence(std::string_view text, TextSpan span, const FitsModel& fits) {
  std::vector<TextSpan> out;
  const std::string_view sentence = text.substr(0, span.end);
  std::vector<size_t> breaks = line_breaks_of(sentence.substr(span.begin));
  for (size_t& at : breaks) at += span.begin;
  while (span.begin < span.end) {
    const std::span<const size_t> ahead(std::upper_bound(breaks.begin(), breaks.end(), span.begin),
                                        breaks.end());
    size_t end = longest_fit(sentence, span.begin, ahead, fits);
    if (end == 0)  // a word alone does not fit
      end = longest_fit(sentence, span.begin, character_ends(sentence, span.begin, ahead.front()),
                        fits);
    if (end == 0)  // not even a character: the engine says so
      end = span.begin + static_cast<size_t>(code_point_at(sentence, span.begin).length);
    out.push_back({span.begin, end});
    span.begin = end;
  }
  return out;
}

std::vector<TextSpan> fitting_sentences(std::string_view text, TextSpan within,
                                        const std::string& language, const FitsModel& fits) {
  std::vector<TextSpan> out;
  for (TextSpan span :
       sentences_of(text.substr(within.begin, within.end - within.begin), language)) {
    span = {span.begin + within.begin, span.end + within.begin};
    if (fits(text.substr(span.begin, span.end - span.begin))) {
      out.push_back(span);
    } else {
      for (const TextSpan& piece : cut_sentence(text, span, fits)) {
        const TextSpan words = trimmed(text, piece);
        if (words.begin < words.end) out.push_back(words);
      }
    }
  }
  return out;
}

std::string_view without_ends(std::string_view text) {
  const TextSpan span = trimmed(text, {0, text.size()});
  return text.substr(span.begin, span.end - span.begin);
}

bool has_blank_last_line(std::string_view text) {
  return without_ends(text.substr(text.find_last_of("\n\r") + 1)).empty();
}

}  // namespace

SplitDocument split_document(std::string_view text, Split split, const std::string& language,
                             const FitsModel& fits) {
  TANDEM_CHECK(split == Split::kSentences || split == Split::kParagraphs);
  std::vector<TextSpan> spans;
  if (split == Split::kSentences) {
    spans = fitting_sentences(text, {0, text.size()}, language, fits);
  } else {
    for (const TextSpan& line : lines_of(text)) {
      if (fits(text.substr(line.begin, line.end - line.begin))) {
        spans.push_back(line);
      } else {
        const auto sentences = fitting_sentences(text, line, language, fits);
        spans.insert(spans.end(), sentences.begin(), sentences.end());
      }
    }
  }
  SplitDocument out;
  size_t at = 0;
  for (const TextSpan& span : spans) {
    out.parts.push_back({std::string(text.substr(at, span.begin - at)),
                         std::string(text.substr(span.begin, span.end - span.begin))});
    at = span.end;
  }
  out.after = text.substr(at);
  return out;
}

std::vector<std::string> chunks_of(std::string_view text, const std::string& language,
                                   const FitsModel& fits) {
  const std::vector<TextSpan> sentences = fitting_sentences(text, {0, text.size()}, language, fits);
  std::vector<size_t> ends;
  for (const TextSpan& sentence : sentences) ends.push_back(sentence.end);
  std::vector<std::string> out;
  for (size_t i = 0; i < sentences.size();) {
    const size_t begin = sentences[i].begin;
    const size_t end =
        std::max(longest_fit(text, begin, std::span(ends).subspan(i), fits), ends[i]);
    out.emplace_back(text.substr(begin, end - begin));
    while (i < sentences.size() && sentences[i].end <= end) ++i;
  }
  return out;
}

void append_answer(std::string& document, const std::string& before, std::string_view answer) {
  answer = without_ends(answer);
  const bool within_line = before.find_first_of("\n\r") == std::string::npos;
  if (document.empty() || !within_line) {
    document.append(before).append(answer);
    return;
  }
  if (answer.empty()) return;
  // Nothing has been said of the line yet: its indentation stays as it is.
  if (has_blank_last_line(document)) {
    document.append(answer);
    return;
  }
  const char32_t last = code_point_at(document, previous_position(document, document.size())).value;
  const bool joined =
      is_written_without_spaces(last) && is_written_without_spaces(code_point_at(answer, 0).value);
  if (before.empty() && !joined && !is_space(last))
    document.push_back(' ');
  else if (!joined || before.find_first_not_of(' ') != std::string::npos)
    document.append(before);
  document.append(answer);
}

}  // namespace tandem
