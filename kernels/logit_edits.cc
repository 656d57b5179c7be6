#include "kernels/logit_edits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tandem {

float edited(ops::LogitEdit edit, float x, float value) {
  switch (edit) {
    case ops::LogitEdit::kAdd: return x + value;
    case ops::LogitEdit::kPenalise: return x < 0 ? x * value : x / value;
    case ops::LogitEdit::kSet: return value;
    case ops::LogitEdit::kFavour: return std::isfinite(x) ? x + std::fabs(x) * value : x;
  }
  return x;
}

void penalise_tokens(const ops::RowHistory& h, std::span<const int32_t> tokens,
                     std::span<float> row) {
  const bool counts = h.presence != 0 || h.frequency != 0;
  if (h.repetition == 1.0f && !counts) return;
  struct Token {
    int32_t id;
    bool is_output;
  };
  std::vector<Token> sorted;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] >= 0 && static_cast<size_t>(tokens[i]) < row.size())
      sorted.push_back({tokens[i], static_cast<int64_t>(i) >= h.first_output});
  std::ranges::sort(sorted, {}, &Token::id);
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::ranges::upper_bound(begin, sorted.end(), begin->id, {}, &Token::id);
    float& x = row[static_cast<size_t>(begin->id)];
    x = edited(ops::LogitEdit::kPenalise, x, h.repetition);
    const auto outputs = std::count_if(begin, end, [](const Token& t) { return t.is_output; });
    if (counts && outputs > 0) {
      const float product = h.frequency * static_cast<float>(outputs);
      x += -product;
      x += -h.presence;
    }
    begin = end;
  }
}

void mask_ngrams(const ops::RowHistory& h, std::span<const int32_t> tokens, std::span<float> row) {
  const auto length = std::ssize(tokens), before = int64_t{h.ngram_size} - 1;
  if (before < 0 || length < before) return;
  const int32_t* last = tokens.data() + length - before;
  for (int64_t i = 0; i + before < length; ++i) {
    const int32_t id = tokens[static_cast<size_t>(i + before)];
    if (id >= 0 && static_cast<size_t>(id) < row.size() &&
        std::equal(last, last + before, tokens.data() + i))
      row[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace tandem
