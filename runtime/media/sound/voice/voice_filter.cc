#include "runtime/media/sound/voice/voice_filter.h"

#include <algorithm>
#include <utility>

namespace tandem {

namespace {
constexpr int64_t kWindow = VoiceNetwork::kWindow;
}  // namespace

VoiceFilter::VoiceFilter(std::shared_ptr<const VoiceWeights> weights, const VoiceOptions& options,
                         Sink speech)
    : network_(std::move(weights)),
      finder_(options, kWindow, VoiceNetwork::kRate),
      speech_(std::move(speech)) {}

void VoiceFilter::add(std::span<const float> samples) {
  buffer_.insert(buffer_.end(), samples.begin(), samples.end());
  const int64_t new_samples = first_ + std::ssize(buffer_) - heard_;
  hear(std::span<const float>(buffer_).subspan(
      static_cast<size_t>(heard_ - first_), static_cast<size_t>(new_samples / kWindow * kWindow)));
}

std::vector<SpeechSpan> VoiceFilter::finish() {
  const int64_t samples = first_ + std::ssize(buffer_);
  // The last window is filled up; where none is open, faster-whisper adds one of silence.
  std::vector<float> last(buffer_.begin() + (heard_ - first_), buffer_.end());
  last.resize(static_cast<size_t>(kWindow));
  hear(last);
  finder_.finish(samples);
  give_spans();
  return std::move(spans_);
}

void VoiceFilter::hear(std::span<const float> windows) {
  std::vector<float> probabilities;
  network_.add(windows, probabilities);
  heard_ += std::ssize(windows);
  for (const float probability : probabilities) finder_.add(probability);
  give_spans();
}

void VoiceFilter::give_spans() {
  for (const SpeechSpan& span : finder_.take()) {
    give(span.begin, span.end);
    spans_.push_back(span);
  }
  give(finder_.next_from(), finder_.certain_to());
  const int64_t kept_from = std::min(std::max(given_, finder_.next_from()), heard_);
  if (kept_from <= first_ || kept_from > first_ + std::ssize(buffer_)) return;
  buffer_.erase(buffer_.begin(), buffer_.begin() + (kept_from - first_));
  first_ = kept_from;
}

void VoiceFilter::give(int64_t begin, int64_t end) {
  begin = std::max(begin, given_);
  if (begin >= end) return;
  speech_(std::span<const float>(buffer_).subspan(static_cast<size_t>(begin - first_),
                                                  static_cast<size_t>(end - begin)));
  given_ = end;
}

SpeechClock::SpeechClock(const std::vector<SpeechSpan>& spans, int rate) : rate_(rate) {
  int64_t silent = 0, behind = 0;
  for (const SpeechSpan& span : spans) {
    silent += span.begin - std::exchange(behind, span.end);
    ends_.push_back(span.end - silent);
    silence_.push_back(static_cast<double>(silent) / rate);
  }
}

std::pair<double, double> SpeechClock::word(double begin, double end) const {
  const double silence = silence_before((begin + end) / 2, false);
  return {begin + silence, end + silence};
}

double SpeechClock::silence_before(double time, bool is_end) const {
  if (ends_.empty()) return 0;
  const auto sample = static_cast<int64_t>(time * rate_);
  // The first span that ends behind it, or there.
  const auto at = is_end ? std::lower_bound(ends_.begin(), ends_.end(), sample)
                         : std::upper_bound(ends_.begin(), ends_.end(), sample);
  const auto i = std::min(at - ends_.begin(), std::ssize(ends_) - 1);
  return silence_[static_cast<size_t>(i)];
}

}  // namespace tandem
