#include "runtime/media/sound/live/word_agreement.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings/utf8.h"
#include "text/unicode/letter_case.h"

namespace tandem {
namespace {

// Scripts that write no blanks between words: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
bool stands_alone(char32_t c) {
  return (c >= 0xe00 && c <= 0xeff) || (c >= 0x1000 && c <= 0x109f) ||
         (c >= 0x1780 && c <= 0x17ff) || (c >= 0x3041 && c <= 0x30ff) ||
         (c >= 0x3400 && c <= 0x9fff) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0x20000 && c <= 0x3ffff);
}
bool is_blank(char32_t c) { return c == ' ' || (c >= 9 && c <= 13) || c == 0x3000; }
bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return c > ' ' && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  return c == 0xa1 || c == 0xab || c == 0xb7 || c == 0xbb || c == 0xbf ||
         (c >= 0x2010 && c <= 0x205e) || (c >= 0x3001 && c <= 0x3003) ||
         (c >= 0x3008 && c <= 0x301f) || (c >= 0xff01 && c <= 0xff0f) ||
         (c >= 0xff1a && c <= 0xff20) || c == 0x964 || c == 0x60c || c == 0x61f;
}

// Puts a piece without blanks in it, `lead` before it, among the words.
void add_piece(std::string lead, std::string_view piece, size_t segment,
               std::vector<LiveWord>& words) {
  size_t begin = 0, end = piece.size();
  while (begin < end) {
    const CodePoint c = code_point_at(piece, begin);
    if (!is_punctuation(c.value)) break;
    begin += static_cast<size_t>(c.length);
  }
  while (end > begin) {
    const size_t at = previous_position(piece, end);
    if (!is_punctuation(code_point_at(piece, at).value)) break;
    end = at;
  }
  if (begin == end && !words.empty()) {  // nothing but punctuation
    words.back().tail += lead + std::string(piece);
    return;
  }
  LiveWord word;
  word.text = std::move(lead) + std::string(piece.substr(0, end));
  word.segment = segment;
  word.tail = piece.substr(end);
  word.key = lower_case(piece.substr(begin, end - begin));
  words.push_back(std::move(word));
}

}  // namespace

void append_words(std::string_view text, size_t segment, std::vector<LiveWord>& words) {
  std::string clean;
  append_utf8_lossy(text, clean);
  std::string lead;
  size_t begin = 0;  // of the piece
  const auto end_piece = [&](size_t end) {
    if (end > begin)
      add_piece(std::exchange(lead, {}), std::string_view(clean).substr(begin, end - begin),
                segment, words);
    begin = end;
  };
  bool alone = false;  // the piece so far is a character that stands alone
  for (size_t at = 0; at < clean.size();) {
    const CodePoint c = code_point_at(clean, at);
    const size_t next = at + static_cast<size_t>(c.length);
    if (is_blank(c.value)) {
      end_piece(at);
      lead += clean.substr(at, next - at);
      begin = next;
      alone = false;
    } else if (stands_alone(c.value)) {
      end_piece(at);
      alone = true;
    } else if (alone && !is_punctuation(c.value)) {
      end_piece(at);
      alone = false;
    }
    at = next;
  }
  end_piece(clean.size());
}

// How many words of the hypothesis say what is settled: the beginning that is nearest to it.
size_t WordAgreement::matched(const std::vector<LiveWord>& heard) const {
  const size_t rows = keys_.size(), columns = heard.size();
  size_t same = 0;
  while (same < std::min(rows, columns) && keys_[same] == heard[same].key) ++same;
  if (same == rows) return rows;
  std::vector<size_t> costs(columns + 1), above(columns + 1);
  for (size_t j = 0; j <= columns; ++j) above[j] = j;
  for (size_t i = 1; i <= rows; ++i) {
    costs[0] = i;
    for (size_t j = 1; j <= columns; ++j)
      costs[j] = std::min({above[j] + 1, costs[j - 1] + 1,
                           above[j - 1] + (keys_[i - 1] == heard[j - 1].key ? 0 : 1)});
    costs.swap(above);
  }
  const auto distance = [&](size_t j) { return j > rows ? j - rows : rows - j; };
  size_t best = 0;
  for (size_t j = 1; j <= columns; ++j)
    if (above[j] < above[best] || (above[j] == above[best] && distance(j) <= distance(best)))
      best = j;
  return best;
}

// The words of the last hypothesis up to there are settled.
std::string WordAgreement::settle_to(size_t count) {
  std::string out;
  for (; settled_ < count; ++settled_) {
    if (settled_ > 0 && !tail_said_) out += heard_[settled_ - 1].tail;
    out += heard_[settled_].text;
    keys_.push_back(heard_[settled_].key);
    tail_said_ = false;
  }
  return out;
}

std::string WordAgreement::take(std::vector<LiveWord> heard, size_t settle) {
  const std::vector<LiveWord> before = std::exchange(heard_, std::move(heard));
  const size_t before_settled = std::exchange(settled_, matched(heard_));
  size_t agreed = 0;
  while (before_settled + agreed < before.size() && settled_ + agreed < heard_.size() &&
         before[before_settled + agreed].key == heard_[settled_ + agreed].key)
    ++agreed;
  return settle_to(std::max(settled_ + agreed, std::min(settle, heard_.size())));
}

std::string WordAgreement::finish() {
  std::string out = settle_to(heard_.size());
  if (settled_ > 0 && !std::exchange(tail_said_, true)) out += heard_[settled_ - 1].tail;
  keys_.clear();
  heard_.clear();
  settled_ = 0;
  return out;
}

std::string WordAgreement::cut(size_t segment) {
  size_t count = 0;
  while (count < heard_.size() && heard_[count].segment <= segment) ++count;
  TANDEM_CHECK(count <= settled_, "words are cut that are not settled");
  std::string out;
  if (count == settled_ && count > 0 && !std::exchange(tail_said_, true))
    out = heard_[count - 1].tail;
  heard_.erase(heard_.begin(), heard_.begin() + static_cast<long>(count));
  settled_ -= count;
  keys_.clear();
  for (size_t i = 0; i < settled_; ++i) keys_.push_back(heard_[i].key);
  return out;
}

std::string WordAgreement::text_to(size_t count) const {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += heard_[i].text + heard_[i].tail;
  return out;
}

std::string WordAgreement::partial() const {
  std::string out;
  if (settled_ > 0 && !tail_said_) out = heard_[settled_ - 1].tail;
  for (size_t i = settled_; i < heard_.size(); ++i) out += heard_[i].text + heard_[i].tail;
  return out;
}

void WordAgreement::check_integrity() const {
  TANDEM_CHECK(settled_ <= heard_.size());
  for (const LiveWord& word : heard_) TANDEM_CHECK(!word.text.empty());
  if (keys_.empty()) TANDEM_CHECK(tail_said_ || settled_ == 0);
}

}  // namespace tandem
