#include "text/sentences.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/udata.h>
#include <unicode/uloc.h>
#include <unicode/ures.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>

#include "base/check.h"
#include "base/mutex.h"
#include "base/strings/utf8.h"
#include "text/unicode/library_classes.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

struct Close {
  void operator()(UBreakIterator* iterator) const { ubrk_close(iterator); }
  void operator()(UText* text) const { utext_close(text); }
  void operator()(UResourceBundle* bundle) const { ures_close(bundle); }
};

// All boundaries of a kind, as byte offsets, 0 left out.
std::vector<size_t> boundaries_of(std::string_view text, UBreakIteratorType type,
                                  const std::string& locale) {
  std::vector<size_t> out;
  if (text.empty()) return out;
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UBreakIterator, Close> iterator(
      ubrk_open(type, locale.c_str(), nullptr, 0, &status));
  TANDEM_CHECK(U_SUCCESS(status), "ICU has no break iterator");
  const std::unique_ptr<UText, Close> utf8(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status));
  TANDEM_CHECK(U_SUCCESS(status));
  ubrk_setUText(iterator.get(), utf8.get(), &status);
  TANDEM_CHECK(U_SUCCESS(status));
  for (int32_t at = ubrk_first(iterator.get()); at != UBRK_DONE; at = ubrk_next(iterator.get()))
    if (at > 0) out.push_back(static_cast<size_t>(at));
  return out;
}

// ISO 639's code of a language by a model's name of it, of two letters where it has such a code.
std::string code_of(const std::string& language) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const std::string name(language.begin(),
                         std::find_if_not(language.begin(), language.end(), is_letter));
  std::array<char, 12> code{};
  UErrorCode status = U_ZERO_ERROR;
  if (name.size() < 2 || name.size() > 3) return "en";
  uloc_getLanguage(name.c_str(), code.data(), std::ssize(code), &status);
  return U_SUCCESS(status) ? code.data() : "en";
}

bool is_opening(char32_t c) {
  const auto category = static_cast<UCharCategory>(u_charType(static_cast<UChar32>(c)));
  return category == U_START_PUNCTUATION || category == U_INITIAL_PUNCTUATION;
}

bool is_upper(std::string_view text, size_t at) {
  return u_isUUppercase(static_cast<UChar32>(code_point_at(text, at).value)) != 0;
}

// "J." and what follows.
bool begins_with_initial(std::string_view text) {
  return !text.empty() && is_upper(text, 0) &&
         text.substr(static_cast<size_t>(code_point_at(text, 0).length)).starts_with('.');
}

// The characters before `end` that are no white space and no opening bracket or quotation mark.
std::string_view last_word(std::string_view text, size_t end) {
  size_t begin = end;
  while (begin > 0) {
    const size_t at = previous_position(text, begin);
    const char32_t c = code_point_at(text, at).value;
    if (is_space(c) || is_opening(c)) break;
    begin = at;
  }
  return text.substr(begin, end - begin);
}

// CLDR's abbreviations that end with a full stop within a sentence, of a language ("Mr.", "z. B.").
// (ICU's own filter, "@ss=standard", takes "Oktober." for one that ends so.)
std::vector<std::string> abbreviations_of(const std::string& language) {
  std::vector<std::string> out{"Dr.", "Prof.", "Mr.", "Mrs.", "Ms.", "St.", "Mme.", "Mlle."};
  UErrorCode status = U_ZERO_ERROR;
  const auto open = [&](const char* name, UResourceBundle* of) {
    return std::unique_ptr<UResourceBundle, Close>(ures_getByKey(of, name, nullptr, &status));
  };
  const std::unique_ptr<UResourceBundle, Close> bundle(
      ures_open(U_ICUDATA_NAME "-brkitr", language.c_str(), &status));
  const auto exceptions = open("exceptions", bundle.get());
  const auto list = open("SentenceBreak", exceptions.get());
  for (int32_t i = 0, n = U_SUCCESS(status) ? ures_getSize(list.get()) : 0; i < n; ++i) {
    std::array<char, 64> text{};
    auto length = static_cast<int32_t>(text.size());
    UErrorCode of_word = U_ZERO_ERROR;
    const char* word =
        ures_getUTF8StringByIndex(list.get(), i, text.data(), &length, /*forceCopy=*/0, &of_word);
    if (U_SUCCESS(of_word) && std::string_view(word).ends_with('.')) out.emplace_back(word);
  }
  return out;
}

const std::vector<std::string>& known_abbreviations(const std::string& language) {
  static Mutex mutex;
  static std::map<std::string, std::vector<std::string>> known;
  const MutexLock lock(mutex);
  const auto [it, added] = known.try_emplace(language);
  if (added) it->second = abbreviations_of(language);
  return it->second;
}

bool ends_with_abbreviation(std::string_view sentence, const std::string& language) {
  const auto& list = known_abbreviations(language);
  return std::any_of(list.begin(), list.end(), [&](const std::string& word) {
    if (!sentence.ends_with(word)) return false;
    const size_t at = sentence.size() - word.size();
    if (at == 0) return true;
    const char32_t c = code_point_at(sentence, previous_position(sentence, at)).value;
    return is_space(c) || is_opening(c);
  });
}

// Those that write "3. Oktober" for the third of October.
bool has_dotted_ordinals(const std::string& language) {
  static constexpr std::string_view kLanguages[] = {"bs", "cs", "da", "de", "et", "fi", "fo",
                                                    "hr", "hu", "is", "lb", "lv", "nb", "nn",
                                                    "no", "pl", "sk", "sl", "sr", "tr"};
  return std::find(std::begin(kLanguages), std::end(kLanguages), language) != std::end(kLanguages);
}

// Whether a boundary is none: behind an abbreviation, an initial, an ordinal or a list item's
// number.
bool goes_on(std::string_view sentence, std::string_view next, const std::string& language) {
  if (!sentence.ends_with('.')) return false;
  const std::string_view word = last_word(sentence, sentence.size() - 1);
  if (word.empty()) return false;
  if (ends_with_abbreviation(sentence, language)) return true;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (word.size() <= 3 && std::all_of(word.begin(), word.end(), is_digit))
    return word.size() + 1 == sentence.size() || (word.size() < 3 && has_dotted_ordinals(language));
  // An initial: "J. Smith" at the beginning, "John R. Smith", "by J. R. R. Tolkien"; but
  // "vitamin C. It helps".
  const bool is_initial =
      is_upper(word, 0) && static_cast<size_t>(code_point_at(word, 0).length) == word.size();
  if (!is_initial) return false;
  if (begins_with_initial(next)) return true;
  const auto word_begin = static_cast<size_t>(word.data() - sentence.data());
  const TextSpan before = trimmed(sentence, {0, word_begin});
  if (before.begin == before.end) return true;
  const std::string_view previous = last_word(sentence, before.end);
  return !previous.empty() && is_upper(previous, 0);
}

bool has_line_end(std::string_view text) {
  return text.find_first_of("\n\r\f\v") != std::string_view::npos ||
         text.find("\u2028") != std::string_view::npos ||
         text.find("\u2029") != std::string_view::npos ||
         text.find("\u0085") != std::string_view::npos;
}

}  // namespace

TextSpan trimmed(std::string_view text, TextSpan span) {
  while (span.begin < span.end) {
    const CodePoint c = code_point_at(text, span.begin);
    if (!is_space(c.value)) break;
    span.begin += static_cast<size_t>(c.length);
  }
  while (span.begin < span.end) {
    const size_t last = previous_position(text, span.end);
    if (!is_space(code_point_at(text, last).value)) break;
    span.end = last;
  }
  return span;
}

std::vector<TextSpan> sentences_of(std::string_view text, const std::string& language) {
  const std::string code = code_of(language);
  std::vector<TextSpan> out;
  size_t begin = 0;
  for (size_t end : boundaries_of(text, UBRK_SENTENCE, code)) {
    // UAX #29 takes an opening quotation mark for a closing one: it belongs to what follows.
    while (end < text.size() && end > begin &&
           is_opening(code_point_at(text, previous_position(text, end)).value))
      end = previous_position(text, end);
    const TextSpan span = trimmed(text, {begin, end});
    begin = end;
    if (span.begin == span.end) continue;
    const auto of = [&](const TextSpan& s) { return text.substr(s.begin, s.end - s.begin); };
    if (!out.empty() && !has_line_end(of({out.back().end, span.begin})) &&
        goes_on(of(out.back()), text.substr(span.begin), code))
      out.back().end = span.end;
    else
      out.push_back(span);
  }
  return out;
}

std::vector<TextSpan> lines_of(std::string_view text) {
  std::vector<TextSpan> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
    const TextSpan span = trimmed(text, {begin, end});
    if (span.begin < span.end) out.push_back(span);
    begin = end + 1;
  }
  return out;
}

std::vector<size_t> line_breaks_of(std::string_view text) {
  return boundaries_of(text, UBRK_LINE, "en");
}

bool is_written_without_spaces(char32_t c) {
  if (in_range(c, 0x3000, 0x303F) || in_range(c, 0xFF00, 0xFFEF)) return true;  // punctuation
  UErrorCode status = U_ZERO_ERROR;
  switch (uscript_getScript(static_cast<UChar32>(c), &status)) {
    case USCRIPT_HAN:
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_BOPOMOFO:
    case USCRIPT_THAI:
    case USCRIPT_LAO:
    case USCRIPT_KHMER:
    case USCRIPT_MYANMAR: return true;
    default: return false;
  }
}

}  // namespace tandem
