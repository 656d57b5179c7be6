#include "text/pipeline/text_splitter.h"

#include <algorithm>
#include <utility>

#include "base/strings/utf8.h"

namespace tandem {

TextSplitter::TextSplitter(std::unique_ptr<Normalizer> normalizer,
                           std::unique_ptr<PreTokenizer> pre_tokenizer)
    : normalizer_(std::move(normalizer)), pre_tokenizer_(std::move(pre_tokenizer)) {
  const bool parts = pre_tokenizer_ && pre_tokenizer_->transforms();
  if (pre_tokenizer_ && pre_tokenizer_->asks_for_start())
    aligns_ = normalizer_ || !pre_tokenizer_->takes_start();
  if (!normalizer_) return;
  aligns_ = aligns_ || normalizer_->misaligns(parts, false);
  aligns_marks_ = normalizer_->misaligns(parts, parts);
}

bool TextSplitter::needs_alignment(std::string_view text) const {
  return aligns_ || (aligns_marks_ && std::any_of(text.begin(), text.end(), [](char c) {
                       return static_cast<unsigned char>(c) >= 0x80;
                     }));
}

void TextSplitter::split_words(std::string_view text, bool starts, GrowthBudget& budget,
                               const Sink& sink) const {
  if (!pre_tokenizer_) return sink.word(text);
  pre_tokenizer_->split({text, starts}, budget, [&](const Word& word) { sink.word(word.text); });
}

void TextSplitter::split(std::string_view text, GrowthBudget& budget, const Sink& sink) const {
  if (needs_alignment(text)) {
    const GrowthBudget before = budget;
    try {
      for (const Part& part : aligned_parts(text, budget))
        part.word.empty() ? sink.token(part.token) : sink.word(part.word);
      return;
    } catch (const Misaligned&) {  // the library has no answer
      budget = before;
    }
  }
  const AddedTokens::Sink normalized{[&](std::string_view part) {
                                       split_words(part, !normalizer_ && part.data() == text.data(),
                                                   budget, sink);
                                     },
                                     sink.token};
  const auto raw = [&](std::string_view part) {
    if (!normalizer_) return added_.split(part, true, normalized);
    added_.split(normalizer_->normalize(part, budget), true, normalized);
  };
  added_.split(text, false, {raw, sink.token});
}

std::vector<TextSplitter::Part> TextSplitter::aligned_parts(std::string_view text,
                                                            GrowthBudget& budget) const {
  std::vector<Part> out;
  const auto token = [&](int32_t id) { out.push_back({{}, id}); };
  const AlignedSink word = [&](const AlignedText& part) { out.push_back({part.text(), 0}); };
  const auto part_of = [](const AlignedText& whole, std::string_view part) {
    const auto begin = static_cast<size_t>(part.data() - whole.text().data());
    return whole.slice(begin, begin + part.size());
  };
  const AlignedText input(text);
  const auto raw = [&](std::string_view part) {
    AlignedText changed = part_of(input, part);
    if (normalizer_) normalizer_->align(changed, budget);
    const auto normalized = [&](std::string_view inner) {
      const AlignedText words = part_of(changed, inner);
      pre_tokenizer_ ? pre_tokenizer_->align(words, budget, word) : word(words);
    };
    added_.split(changed.text(), true, {normalized, token});
  };
  added_.split(input.text(), false, {raw, token});
  return out;
}

}  // namespace tandem
