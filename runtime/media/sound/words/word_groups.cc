#include "runtime/media/sound/words/word_groups.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/strings/code_points.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
using Groups = std::vector<WordGroup>;

constexpr std::string_view kWithoutBlanks[] = {"zh", "ja", "th", "lo", "my", "yue"};
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kJoinsNext = "\"'“¡¿([{-";
constexpr std::string_view kJoinsBefore = "\"'.。,，!！?？:：”)]}、";
constexpr char32_t kReplacement = 0xfffd;

// (A part of such a list is one too, and so is nothing at all.)
bool is_part_of(std::string_view list, std::string_view text) {
  return list.find(text) != std::string_view::npos;
}

// The shortest runs of tokens that are whole characters. A replacement character ends a run where
// the whole text has one too.
Groups whole_characters(const Tokenizer& tokenizer, const Ids& tokens) {
  const std::u32string all = code_points_of(tokenizer.decode(tokens, /*skip_special=*/false));
  Groups out;
  Ids ids;
  std::vector<size_t> places;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    ids.push_back(tokens[i]);
    places.push_back(i);
    std::string text = tokenizer.decode(ids, /*skip_special=*/false);
    const std::u32string decoded = code_points_of(text);
    const size_t broken = decoded.find(kReplacement);
    if (broken != std::u32string::npos && begin + broken < all.size() &&
        all[begin + broken] != kReplacement)
      continue;
    out.push_back({std::move(text), std::exchange(places, {})});
    ids.clear();
    begin += decoded.size();
  }
  return out;
}

void append(WordGroup& to, const WordGroup& more) {
  to.text += more.text;
  to.places.insert(to.places.end(), more.places.begin(), more.places.end());
}

Groups with_blanks(const Tokenizer& tokenizer, const Ids& tokens) {
  const std::optional<int32_t> end = tokenizer.token_to_id("<|endoftext|>");
  Groups out;
  for (WordGroup& part : whole_characters(tokenizer, tokens)) {
    const bool special = end && tokens[part.places.front()] >= *end;
    if (special || part.text.starts_with(' ') || is_part_of(kPunctuation, stripped(part.text)) ||
        out.empty())
      out.push_back(std::move(part));
    else
      append(out.back(), part);
  }
  return out;
}

}  // namespace

Groups split_words(const Tokenizer& tokenizer, const Ids& tokens, std::string_view language) {
  const bool characters_are_words = std::find(std::begin(kWithoutBlanks), std::end(kWithoutBlanks),
                                              language) != std::end(kWithoutBlanks);
  return characters_are_words ? whole_characters(tokenizer, tokens)
                              : with_blanks(tokenizer, tokens);
}

// (Empty words take part as there.)
void join_punctuation(Groups& words) {
  for (size_t i = words.size() < 2 ? 0 : words.size() - 1, next = i; i-- > 0;) {
    if (words[i].text.starts_with(' ') && is_part_of(kJoinsNext, stripped(words[i].text))) {
      append(words[i], words[next]);
      words[next] = std::exchange(words[i], {});
    } else {
      next = i;
    }
  }
  for (size_t i = 0, next = 1; next < words.size(); ++next) {
    if (!words[i].text.ends_with(' ') && is_part_of(kJoinsBefore, words[next].text))
      append(words[i], std::exchange(words[next], {}));
    else
      i = next;
  }
}

Groups group_words(const Tokenizer& tokenizer, const Ids& tokens, std::string_view language) {
  Groups words = split_words(tokenizer, tokens, language);
  join_punctuation(words);
  std::erase_if(words, [](const WordGroup& word) { return word.text.empty(); });
  return words;
}

}  // namespace tandem
