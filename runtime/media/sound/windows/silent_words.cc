#include "runtime/media/sound/windows/silent_words.h"

#include <utility>

#include "text/language_names.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

// places: of the group's tokens among those of the window, by their places in the texts.
HeardWord word_of(WordGroup group, const std::vector<size_t>& places,
                  const SilentWords::Window& window) {
  HeardWord out;
  const size_t first = places[group.places.front()], last = places[group.places.back()];
  out.start = first > 0 ? window.ends[first - 1] : 0.0;
  out.end = window.ends[last];
  for (const size_t text : group.places)
    if (places[text] < window.probabilities.size())
      out.probability += window.probabilities[places[text]];
  out.probability /= static_cast<double>(group.places.size());
  out.group = std::move(group);
  return out;
}

}  // namespace

SilentWords::SilentWords(std::shared_ptr<const SpeechSettings> settings, const Tokenizer& tokenizer,
                         double threshold, int64_t frames)
    : settings_(std::move(settings)),
      tokenizer_(tokenizer),
      threshold_(threshold),
      frames_(frames) {}

std::vector<HeardSegment> SilentWords::hear(const Window& window, const WindowSegments& cut) const {
  Ids texts;
  std::vector<size_t> places;
  std::vector<HeardSegment> out;
  size_t at = 0;
  for (const proto::SpeechSegment& segment : cut.segments) {
    out.push_back({segment.start(), segment.end()});
    for (const int32_t id : segment.token_ids()) {
      const size_t place = at++;
      if (id >= settings_->first_timestamp() || tokenizer_.is_special(id)) continue;
      texts.push_back(id);
      places.push_back(place);
      ++out.back().tokens;
    }
  }
  std::vector<HeardWord> words;
  for (WordGroup& group : split_words(tokenizer_, texts, language_code_of_token(window.language)))
    words.push_back(word_of(std::move(group), places, window));
  place_words(std::move(words), settings_->mel.seconds_of(window.place.begin), last_speech_, out);
  return out;
}

std::optional<int64_t> SilentWords::leave_out(const Window& window, WindowSegments& cut) {
  const std::vector<HeardSegment> heard = hear(window, cut);
  HeardWindow place{window.place.begin, window.place.frames, settings_->window_frames, frames_};
  place.frames_per_second = settings_->mel.frames_per_second();
  place.last_speech = last_speech_;
  const std::optional<SilenceSkip> skip = find_silence(heard, place, threshold_);
  const size_t kept = skip ? skip->kept : heard.size();
  for (size_t i = 0; i < kept; ++i)
    if (!heard[i].words.empty()) last_speech_ = heard[i].words.back().end;
  if (!skip) return std::nullopt;
  cut.segments.resize(kept);
  return skip->begin;
}

}  // namespace tandem
