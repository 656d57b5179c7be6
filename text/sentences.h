// Where the sentences and lines of a text are, so that a text longer than a model's input can be
// computed in parts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Bytes [begin, end) of a text, at boundaries of characters. Not empty, without white space at
// either end.
struct TextSpan {
  size_t begin = 0, end = 0;
};

// The sentences of a text, in its order; what lies between two of them is white space. Boundaries
// are those of Unicode (UAX #29) with CLDR's abbreviations of the language, less those behind an
// initial ("J. Smith") and behind the number of a list's item ("1. Open it."). A line end is a
// boundary. `text` is UTF-8. language: as BCP 47 or a model's name of it ("de", "eng_Latn",
// "pt_XX"); an unknown one gets Unicode's rules alone.
std::vector<TextSpan> sentences_of(std::string_view text, const std::string& language);

// The span without the white space at its ends; empty where it has nothing else.
TextSpan trimmed(std::string_view text, TextSpan span);

// The lines of a text that are not blank.
std::vector<TextSpan> lines_of(std::string_view text);

// The places where a line of text may be broken (UAX #14), in ascending order, without 0 and with
// the text's end.
std::vector<size_t> line_breaks_of(std::string_view text);

// Whether a character is of a script that puts no space between words or sentences: Chinese,
// Japanese, Thai, Lao, Khmer, Burmese and their punctuation.
bool is_written_without_spaces(char32_t c);

}  // namespace tandem
