#include "runtime/media/sound/words/token_times.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include "runtime/media/sound/words/word_groups.h"

namespace tandem {

double hundredths(double x) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.2f", x);
  return std::strtod(text.data(), nullptr);
}

void add_words(std::span<const SpokenToken> tokens, const Tokenizer& tokenizer,
               std::string_view language, int32_t first_timestamp, proto::SpeechSegment& segment) {
  std::vector<int32_t> ids;
  std::vector<const SpokenToken*> texts;
  for (const SpokenToken& token : tokens) {
    segment.add_token_timestamps(hundredths(token.end));
    if (token.id >= first_timestamp || tokenizer.is_special(token.id)) continue;
    ids.push_back(token.id);
    texts.push_back(&token);
  }
  for (const WordGroup& group : group_words(tokenizer, ids, language)) {
    proto::SpeechWord& word = *segment.add_words();
    word.set_word(group.text);
    word.set_start(hundredths(texts[group.places.front()]->begin));
    word.set_end(hundredths(texts[group.places.back()]->end));
    double sum = 0;
    for (const size_t place : group.places) sum += texts[place]->probability;
    word.set_probability(sum / static_cast<double>(group.places.size()));
  }
}

}  // namespace tandem
