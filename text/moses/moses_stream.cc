#include "text/moses/moses_stream.h"

#include <algorithm>
#include <utility>

#include "base/strings/code_points.h"
#include "base/strings/utf8.h"
#include "text/moses/moses_characters.h"
#include "text/pipeline/models/symbol_bpe.h"
#include "text/replaced.h"
#include "text/unicode/python_space.h"

namespace tandem::moses {
namespace {

constexpr std::string_view kHyphen = "@-@";

std::string unescaped(std::string text) {
  if (text.find('&') == std::string::npos) return text;
  static constexpr std::string_view kNames[][2] = {
      {"&bar;", "|"}, {"&#124;", "|"}, {"&lt;", "<"},    {"&gt;", ">"},
      {"&bra;", "["}, {"&ket;", "]"},  {"&quot;", "\""}, {"&apos;", "'"},
      {"&#91;", "["}, {"&#93;", "]"},  {"&amp;", "&"}};
  for (const auto& [name, character] : kNames) text = replaced(text, name, character);
  return text;
}

template <class Is>
bool all_of(const std::u32string& word, const Is& is) {
  return std::all_of(word.begin(), word.end(), is);
}

bool is_one_of(std::u32string_view set, char32_t c) {
  return set.find(c) != std::u32string_view::npos;
}

}  // namespace

bool joins(std::string_view language) {
  for (const char* with_more : {"cs", "fi", "fr", "ga", "it", "ko"})
    if (language == with_more) return false;
  return true;
}

std::string MosesStream::append(std::string_view token) {
  std::string text = replaced(replaced(token, " ", ""), SymbolBpe::kEnd, " ");
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const auto length = static_cast<size_t>(c.length);
    if (!is_python_space(c.value))
      letters_.append(text, at, length);
    else if (!letters_.empty())
      out += add_word(std::exchange(letters_, {}));
    at += length;
  }
  return out;
}

std::string MosesStream::finish() {
  std::string out;
  if (!letters_.empty()) out += add_word(std::exchange(letters_, {}));
  if (!word_.empty()) out += join(unescaped(std::exchange(word_, {})));
  return out;
}

// " @-@ " is a hyphen; the spaces belong to one of them only.
std::string MosesStream::add_word(std::string_view word) {
  if (std::exchange(hyphen_, false)) {
    word_ += word;
    return {};
  }
  if (word == kHyphen) {
    word_ += '-';
    hyphen_ = true;
    return {};
  }
  std::string before = std::exchange(word_, std::string(word));
  return before.empty() ? std::string() : join(unescaped(std::move(before)));
}

std::string MosesStream::placed(const std::string& word, bool to_left, bool next_to_right) {
  std::string out = !to_left && space_ && given_ ? " " + word : word;
  space_ = !next_to_right;
  given_ = true;
  return out;
}

std::string MosesStream::join(const std::string& word) {
  const std::u32string characters = code_points_of(word);
  const std::u32string last = code_points_of(std::exchange(last_, word));
  const auto is_opening = [](char32_t c) { return is_currency(c) || is_one_of(U"([{¿¡", c); };
  const auto is_closing = [](char32_t c) { return is_one_of(U",.?!:;\\%}])", c); };
  const auto is_quote = [](char32_t c) { return is_one_of(U"'\"„“`", c); };
  if (is_cjk(characters.front())) return placed(word, !last.empty() && is_cjk(last.back()), false);
  if (all_of(characters, is_opening)) return placed(word, false, true);
  if (all_of(characters, is_closing)) return placed(word, true, false);
  const bool contracted = characters.size() > 1 && characters[0] == '\'' &&
                          is_plain_alpha(characters[1]) && language_ == "en";
  if (contracted && !last.empty()) return placed(word, true, false);
  if (!all_of(characters, is_quote)) return placed(word, false, false);
  const bool german = all_of(characters, [](char32_t c) { return is_one_of(U"„“”", c); });
  int& count = quotes_[german ? "\"" : word];
  if (count % 2 == 0 && language_ == "en" && word == "'" && last.ends_with(U's'))
    return placed(word, true, false);  // the Jones' house
  const bool opens = count++ % 2 == 0;
  return placed(word, !opens, opens);
}

}  // namespace tandem::moses
