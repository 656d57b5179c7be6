// Incremental decoding: all bytes but those of an unfinished character are final as soon as they
// are there, because a later byte can only complete the character at the end. Where spaces are
// trimmed or tidied, those at the end wait for what comes behind them.
#include <utility>

#include "base/strings/utf8.h"
#include "text/replaced.h"
#include "text/tokenizer.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string tidy_spaces(std::string text) {
  static constexpr std::string_view kRules[][2] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kRules) text = replaced(text, what, with);
  return text;
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special), stream_(tokenizer.token_stream()) {}

std::string Detokenizer::append(int32_t id) {
  const bool special = tokenizer_.is_special(id);
  if (tokenizer_.leaves_out(id)) {
    if (stream_) return {};
    if (!tokenizer_.trims_spaces()) return take(pending_.size());
    append_characters(/*all=*/true);
    return {};
  }
  if (skip_special_ && special) return {};
  if (stream_) {
    const std::string_view text = tokenizer_.token_text(id);
    if (text.data() == nullptr) return {};
    pending_ += stream_->append(text);
    return take(certain(pending_.size()));
  }
  if (tokenizer_.trims_spaces()) {
    if (const auto byte = tokenizer_.byte_of(id)) {
      bytes_ += *byte;
      append_characters(/*all=*/false);
    } else {
      append_characters(/*all=*/true);
      append_trimmed(id);
    }
    ending_ = tokenizer_.ending(id);
    return take(certain(right_stripped(pending_).size()));
  }
  pending_ += tokenizer_.token_bytes(id);
  return take(certain(pending_.size() - unfinished_utf8(pending_)));
}

// Its tokens are whole characters.
void Detokenizer::append_trimmed(int32_t id) {
  std::string text;
  append_utf8_lossy(tokenizer_.token_bytes(id), text);
  const bool special = tokenizer_.stands_apart(id);
  if (special && tokenizer_.spaces_special())
    text += ' ';
  else if (!special && starts_ && text.starts_with(' ') && tokenizer_.loses_space(id))
    text.erase(0, 1);
  starts_ = special || (starts_ && text.empty());
  pending_ += text;
  if (!given_) pending_.erase(0, pending_.size() - left_stripped(pending_).size());
}

// As SentencePiece: a byte that begins no character is U+FFFD, the next one may begin another.
void Detokenizer::append_characters(bool all) {
  std::string text;
  size_t at = 0;
  while (at < bytes_.size()) {
    const std::string_view rest = std::string_view(bytes_).substr(at, 4);
    if (find_invalid_utf8(rest) != 0) {
      const auto length = static_cast<size_t>(code_point_at(rest, 0).length);
      text += rest.substr(0, length);
      at += length;
      continue;
    }
    if (!all && unfinished_utf8(rest) == rest.size()) break;
    text += kReplacement;
    ++at;
  }
  bytes_.erase(0, at);
  starts_ = starts_ && text.empty();
  pending_ += text;
  if (!given_) pending_.erase(0, pending_.size() - left_stripped(pending_).size());
}

// Of pending_'s first bytes, those that no later text changes. What tidy_spaces() finds goes on, if
// at all, behind a space, an apostrophe, an 'n' after a space, or a 'v' or 'r' after an apostrophe;
// and other characters than spaces always stay. So text may be cut behind any other character, and
// is tidied in parts. No cut is behind a space or an apostrophe, so before the first byte is none.
size_t Detokenizer::certain(size_t end) const {
  if (!tokenizer_.tidies()) return end;
  for (; end > 0; --end) {
    const char last = pending_[end - 1], before = end > 1 ? pending_[end - 2] : 'x';
    const bool goes_on = last == ' ' || last == '\'' || (last == 'n' && before == ' ') ||
                         ((last == 'v' || last == 'r') && (before == '\'' || before == ' '));
    if (!goes_on) break;
  }
  return end;
}

std::string Detokenizer::take(size_t bytes) {
  std::string text;
  const auto append = tokenizer_.drops_invalid() ? append_valid_utf8 : append_utf8_lossy;
  append(std::string_view(pending_).substr(0, bytes), text);
  pending_.erase(0, bytes);
  if (tokenizer_.tidies()) text = tidy_spaces(std::move(text));
  given_ = given_ || !text.empty();
  return text;
}

std::string Detokenizer::finish() {
  if (stream_) pending_ += stream_->finish();
  if (tokenizer_.trims_spaces()) append_characters(/*all=*/true);
  std::string text;
  if (!tokenizer_.trims_spaces())
    text = take(pending_.size());
  else if (!ending_.empty())
    text = pending_.append(ending_);
  else
    text = take(right_stripped(pending_).size());
  pending_.clear();
  return text;
}

}  // namespace tandem
