#include "runtime/media/sound/windows/chunk_merger.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
using Tokens = TokenMerger::Tokens;
using Segments = std::vector<proto::SpeechSegment>;

// HuggingFace's, whatever the model's window is.
constexpr double kTimesOfWindow = 1500;

bool is_same(const SpokenToken& left, const SpokenToken& right) {
  return left.id == right.id && std::tie(left.begin, left.end) <= std::tie(right.begin, right.end);
}

// The middles of what `left` and `right` have in common where they overlap best: tokens of the left
// one before the first, of the right one from the second on.
std::pair<size_t, size_t> seam(const Tokens& left, const Tokens& right) {
  const size_t l = left.size(), r = right.size();
  double best = 0;
  std::pair<size_t, size_t> out{l, 0};
  for (size_t i = 1; i < l + r; ++i) {  // the right one begins i places before the left one's end
    const size_t begin = l > i ? l - i : 0, end = std::min(l, l + r - i);
    const size_t from = i > l ? i - l : 0;
    size_t matches = 0;
    for (size_t k = begin; k < end; ++k)
      matches += is_same(left[k], right[from + k - begin]) ? 1 : 0;
    const auto shift = static_cast<double>(i);
    // (The addend favours long ones.)
    const double share = static_cast<double>(matches) / shift + shift / 10000.0;
    if (matches < 2 || share <= best) continue;
    best = share;
    out = {(begin + end) / 2, (from + std::min(r, i)) / 2};
  }
  return out;
}

}  // namespace

void TokenMerger::add(Tokens tokens, Tokens& out) {
  has_tokens_ = has_tokens_ || !tokens.empty();
  if (count_++ == 0) {
    left_ = std::move(tokens);
    return;
  }
  const auto [of_left, of_right] = seam(left_, tokens);
  out.insert(out.end(), left_.begin(), left_.begin() + static_cast<long>(of_left));
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<long>(of_right));
  left_ = std::move(tokens);
}

void TokenMerger::finish(Tokens& out) {
  out.insert(out.end(), left_.begin(), left_.end());
  *this = {};
}

// What is known while one chunk is read.
struct ChunkMerger::Place {
  std::optional<int32_t> last;  // times from this token on are the next chunk's to say
  double first = 0;             // those before it were the one's before
  double latest = 0, before_latest = 0, windows = 0;  // seconds
  const Ids* tokens = nullptr;
  size_t i = 0;
};

ChunkMerger::ChunkMerger(const SpeechSettings& settings, const Tokenizer& tokenizer,
                         bool timestamps, double seconds)
    : settings_(settings),
      tokenizer_(tokenizer),
      timestamps_(timestamps),
      seconds_(seconds),
      seconds_per_time_(settings.mel.chunk_length /
                        (static_cast<double>(settings.window_frames) /
                         static_cast<double>(settings.frames_per_position))) {
  text_.emplace(tokenizer_, /*skip_special=*/true);
}

void ChunkMerger::add(const Chunk& chunk, Segments& out) {
  const int32_t zero = settings_.first_timestamp();
  Place place;
  facts_ = chunk.facts;
  place.first = zero;
  place.tokens = &chunk.tokens;
  offset_ -= chunk.left;
  words_ = !chunk.spoken.empty() || words_;
  language_of_words_ = chunk.language;
  const double shared_from = chunk.length - chunk.right;
  if (chunk.left > 0) place.first = chunk.left / seconds_per_time_ + zero;
  if (chunk.right > 0)
    for (size_t i = chunk.tokens.size(); i-- > 0;) {
      const int32_t token = chunk.tokens[i];
      if (token < zero) continue;
      if (place.last && (token - zero) * seconds_per_time_ < shared_from) break;
      place.last = token;
    }
  current_.clear();
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    const int32_t token = chunk.tokens[i];
    place.i = i;
    if (token >= zero)
      add_time(token, place, out);
    else if (tokenizer_.is_special(token))
      add_language(settings_.language_of(token), out);
    else
      current_.push_back(said(chunk, i));
  }
  if (!current_.empty()) {
    merger_.add(std::move(current_), resolved_);
  } else if (!merger_.has_tokens()) {
    merger_ = {};
    start_.reset();
  }
  current_.clear();
  if (!timestamps_) emit(offset_ + chunk.left, out);
  offset_ += chunk.length - chunk.right;
}

// A token of a chunk, in seconds of the whole sound.
SpokenToken ChunkMerger::said(const Chunk& chunk, size_t i) const {
  if (chunk.spoken.empty()) return {chunk.tokens[i]};
  SpokenToken out = chunk.spoken[i];
  out.begin = hundredths(out.begin + offset_);
  out.end = hundredths(out.end + offset_);
  return out;
}

void ChunkMerger::add_time(int32_t token, Place& place, Segments& out) {
  const int32_t zero = settings_.first_timestamp();
  const Ids& tokens = *place.tokens;
  const double said = (token - zero) * seconds_per_time_;
  if (said < place.latest) {  // of the next window of the chunk
    const bool single =
        place.i >= 2 && !(tokens[place.i - 1] >= zero && tokens[place.i - 2] >= zero);
    if (single) {
      place.windows += seconds_per_time_ * kTimesOfWindow;
    } else {
      place.latest = place.before_latest;
      place.windows += place.before_latest;
    }
  }
  place.before_latest = place.latest;
  place.latest = said;
  const double time = hundredths(said + offset_ + place.windows);
  if (place.last && token >= *place.last) {
    skip_ = true;
  } else if (skip_ || (!merger_.empty() && token < place.first)) {
    skip_ = false;
  } else if (!start_) {
    start_ = time;
  } else if (time != *start_) {
    end_text(time, out);
  }
}

// A text in another language is another text.
void ChunkMerger::add_language(const std::string& language, Segments& out) {
  if (language.empty()) return;
  if (!language_.empty() && language != language_ && !timestamps_) end_text(offset_, out);
  language_ = language;
}

void ChunkMerger::end_text(double time, Segments& out) {
  merger_.add(std::move(current_), resolved_);
  current_.clear();
  merger_.finish(resolved_);
  emit(time, out, /*ends=*/true);
  start_.reset();
}

// What is certain of the text, which lasts to `time`.
void ChunkMerger::emit(double time, Segments& out, bool ends) {
  if (resolved_.empty() && !ends) return;
  proto::SpeechSegment& segment = out.emplace_back(facts_);
  segment.set_start(start_.value_or(given_to_));
  segment.set_end(time);
  given_to_ = time;
  for (const SpokenToken& token : resolved_) {
    segment.add_token_ids(token.id);
    segment.mutable_text()->append(text_->append(token.id));
  }
  if (words_)
    add_words(resolved_, tokenizer_, language_of_words_, settings_.first_timestamp(), segment);
  resolved_.clear();
  if (!ends) return;
  segment.mutable_text()->append(text_->finish());
  text_.emplace(tokenizer_, /*skip_special=*/true);
}

void ChunkMerger::finish(Segments& out) {
  if (merger_.empty()) return;
  merger_.finish(resolved_);
  emit(seconds_, out, /*ends=*/true);
}

}  // namespace tandem
