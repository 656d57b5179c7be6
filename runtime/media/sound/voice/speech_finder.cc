#include "runtime/media/sound/voice/speech_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem {

namespace {
constexpr double kShortSilenceMs = 98;
}  // namespace

SpeechFinder::SpeechFinder(const VoiceOptions& options, int64_t window, int rate)
    : threshold_(static_cast<float>(options.threshold)),
      neg_threshold_(static_cast<float>(
          options.neg_threshold.value_or(std::max(options.threshold - 0.15, 0.01)))),
      window_(window),
      min_speech_(rate * options.min_speech_ms / 1000),
      max_speech_(rate * options.max_speech_s - static_cast<double>(window) -
                  2 * rate * options.pad_ms / 1000),
      min_silence_(rate * options.min_silence_ms / 1000),
      short_silence_(rate * kShortSilenceMs / 1000),
      pad_(rate * options.pad_ms / 1000) {}

void SpeechFinder::add(float probability) {
  const int64_t here = std::exchange(now_, now_ + window_);
  const bool speech = probability >= threshold_;
  if (speech && silent_from_ != 0) {
    silent_from_ = 0;
    if (resumed_ < cut_end_) resumed_ = here;
  }
  if (begin_ < 0) {
    if (speech) begin_ = here;
  } else if (static_cast<double>(here - begin_) > max_speech_) {
    if (cut_end_ == 0) {
      end_speech(here);
    } else {
      const int64_t next = resumed_ < cut_end_ ? -1 : resumed_;
      end_speech(cut_end_);
      begin_ = next;
    }
  }
  if (begin_ >= 0 && begin_ != here && probability < neg_threshold_) {
    if (silent_from_ == 0) silent_from_ = here;
    const auto silence = static_cast<double>(here - silent_from_);
    if (silence > short_silence_) cut_end_ = silent_from_;
    if (silence >= min_silence_) {
      if (static_cast<double>(silent_from_ - begin_) > min_speech_)
        end_speech(silent_from_);
      else
        begin_ = -1, silent_from_ = cut_end_ = resumed_ = 0;
    }
  }
  if (begin_ >= 0 && padded_ < 0 && static_cast<double>(speech_to() - begin_) > min_speech_) open();
  // Speech that begins later leaves all of the padding between.
  if (last_ && begin_ < 0 && static_cast<double>(now_ - window_ - last_->end) >= 2 * pad_)
    settle(static_cast<int64_t>(static_cast<double>(last_->end) + pad_));
}

void SpeechFinder::finish(int64_t samples) {
  if (begin_ >= 0 && static_cast<double>(samples - begin_) > min_speech_) end_speech(samples);
  if (last_)
    settle(std::min(samples, static_cast<int64_t>(static_cast<double>(last_->end) + pad_)));
}

std::vector<SpeechSpan> SpeechFinder::take() { return std::exchange(found_, {}); }

int64_t SpeechFinder::next_from() const {
  if (last_) return last_->begin;
  if (padded_ >= 0) return padded_;
  const int64_t from = begin_ >= 0 ? begin_ : now_;
  return std::max<int64_t>(0, from - static_cast<int64_t>(std::ceil(pad_)));
}

int64_t SpeechFinder::certain_to() const {
  if (last_) return last_->end;
  return padded_ >= 0 ? speech_to() : next_from();
}

// Where the speech that goes on ends at the earliest.
int64_t SpeechFinder::speech_to() const {
  int64_t to = silent_from_ != 0 ? silent_from_ : now_ - window_;
  if (cut_end_ != 0 && std::isfinite(max_speech_)) to = std::min(to, cut_end_);
  return to;
}

void SpeechFinder::end_speech(int64_t end) {
  if (padded_ < 0) open();
  last_ = {padded_, end};
  begin_ = padded_ = -1;
  silent_from_ = cut_end_ = resumed_ = 0;
}

// The speech that goes on will be a span. So the silence before it is known, which it shares with
// the span before if it is short.
void SpeechFinder::open() {
  const int64_t all = static_cast<int64_t>(pad_);
  if (!last_) {
    padded_ = std::max<int64_t>(0, static_cast<int64_t>(static_cast<double>(begin_) - pad_));
    return;
  }
  const int64_t silence = begin_ - last_->end;
  const bool is_short = static_cast<double>(silence) < 2 * pad_;
  padded_ =
      is_short ? begin_ - silence / 2 : static_cast<int64_t>(static_cast<double>(begin_) - pad_);
  settle(last_->end + (is_short ? silence / 2 : all));
}

void SpeechFinder::settle(int64_t end) {
  found_.push_back({last_->begin, end});
  last_.reset();
}

}  // namespace tandem
