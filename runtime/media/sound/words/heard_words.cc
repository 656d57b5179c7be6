#include "runtime/media/sound/words/heard_words.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/media/sound/words/token_times.h"

namespace tandem {
namespace {

using HeardWords = std::vector<HeardWord>;
using HeardSegments = std::vector<HeardSegment>;

constexpr double kLongestMedian = 0.7;  // seconds
constexpr std::string_view kSentenceEnds = ".。!！?？";
constexpr std::string_view kNoWords = "\"'“¿([{-\"'.。,，!！?？:：”)]}、";

double seconds_of_word(const HeardWord& word) { return word.end - word.start; }

// (A part of such a list is one too, as in Python.)
bool is_in(std::string_view list, std::string_view text) {
  return list.find(text) != std::string_view::npos;
}

double median_length(const HeardWords& words) {
  std::vector<double> lengths;
  for (const HeardWord& word : words)
    if (seconds_of_word(word) != 0) lengths.push_back(seconds_of_word(word));
  if (lengths.empty()) return 0;
  std::sort(lengths.begin(), lengths.end());
  const size_t half = lengths.size() / 2;
  const double median =
      lengths.size() % 2 == 1 ? lengths[half] : (lengths[half - 1] + lengths[half]) / 2;
  return std::min(kLongestMedian, median);
}

void cut_at_sentences(HeardWords& words, double longest) {
  for (size_t i = 1; i < words.size(); ++i) {
    if (!(seconds_of_word(words[i]) > longest)) continue;
    if (is_in(kSentenceEnds, words[i].group.text))
      words[i].end = words[i].start + longest;
    else if (is_in(kSentenceEnds, words[i - 1].group.text))
      words[i].start = words[i].end - longest;
  }
}

void join_words(HeardWords& words) {
  std::vector<WordGroup> groups;
  for (HeardWord& word : words) groups.push_back(std::move(word.group));
  join_punctuation(groups);
  for (size_t i = 0; i < words.size(); ++i) words[i].group = std::move(groups[i]);
}

// The first word behind a pause, and the second one.
void cut_behind_pause(HeardWords& words, double last_speech, double median, double longest) {
  HeardWord& first = words.front();
  const bool has_second = words.size() > 1;
  if (!(first.end - last_speech > median * 4)) return;
  if (!(seconds_of_word(first) > longest) &&
      !(has_second && words[1].end - first.start > longest * 2))
    return;
  if (has_second && seconds_of_word(words[1]) > longest)
    first.end = words[1].start = std::max(words[1].end / 2, words[1].end - longest);
  first.start = std::max(0.0, first.end - longest);
}

// Times of a segment's ends are those of its words, unless these are too long.
void settle_ends(HeardSegment& segment, double median) {
  HeardWord &first = segment.words.front(), &last = segment.words.back();
  constexpr double kMuch = 0.5;
  if (segment.start < first.end && segment.start - kMuch > first.start)
    first.start = std::max(0.0, std::min(first.end - median, segment.start));
  else
    segment.start = first.start;
  if (segment.end > last.start && segment.end + kMuch < last.end)
    last.end = std::max(last.start + median, segment.end);
  else
    segment.end = last.end;
}

double oddity(const HeardWord& word) {
  constexpr double kImprobable = 0.15, kShort = 0.133, kLong = 2;
  const double seconds = seconds_of_word(word);
  double out = word.probability < kImprobable ? 1 : 0;
  if (seconds < kShort) out += (kShort - seconds) * 15;
  if (seconds > kLong) out += seconds - kLong;
  return out;
}

bool is_odd(const HeardSegment& segment) {
  constexpr int kFirst = 8;
  double sum = 0;
  int count = 0;
  for (const HeardWord& word : segment.words) {
    if (is_in(kNoWords, word.group.text)) continue;
    if (count == kFirst) break;
    sum += oddity(word);
    ++count;
  }
  return !segment.words.empty() && (sum >= 3 || sum + 0.01 >= count);
}

const HeardSegment* with_words(const HeardSegments& segments, size_t from) {
  for (; from < segments.size(); ++from)
    if (!segments[from].words.empty()) return &segments[from];
  return nullptr;
}

}  // namespace

void place_words(HeardWords words, double begin, double last_speech, HeardSegments& segments) {
  const double median = median_length(words), longest = median * 2;
  if (median > 0) cut_at_sentences(words, longest);
  join_words(words);
  size_t next = 0;
  for (HeardSegment& segment : segments) {
    for (size_t tokens = 0; next < words.size() && tokens < segment.tokens; ++next) {
      HeardWord& word = words[next];
      tokens += word.group.places.size();
      if (word.group.text.empty()) continue;
      word.start = hundredths(begin + word.start);
      word.end = hundredths(begin + word.end);
      segment.words.push_back(std::move(word));
    }
    if (segment.words.empty()) continue;
    cut_behind_pause(segment.words, last_speech, median, longest);
    settle_ends(segment, median);
    last_speech = segment.end;
  }
}

std::optional<SilenceSkip> find_silence(const HeardSegments& segments, const HeardWindow& window,
                                        double threshold) {
  const auto seconds = [&](int64_t frames) {
    return static_cast<double>(frames) / window.frames_per_second;
  };
  const auto frames = [&](double time) {
    return static_cast<int64_t>(std::llrint(time * window.frames_per_second));
  };
  const double begin = seconds(window.begin), full_end = seconds(window.begin + window.longest);
  const HeardSegment* const first = with_words(segments, 0);
  if (first != nullptr && is_odd(*first)) {
    const double gap = first->start - begin;
    // (faster-whisper's never ends where this is no frame.)
    if (gap > threshold && frames(gap) > 0) return SilenceSkip{0, window.begin + frames(gap)};
  }
  double last_end = window.last_speech;
  for (size_t i = 0; i < segments.size(); ++i) {
    const HeardSegment& segment = segments[i];
    if (segment.words.empty()) continue;
    if (is_odd(segment)) {
      constexpr double kNear = 2;  // seconds
      const HeardSegment* const next = with_words(segments, i + 1);
      const double next_start =
          next != nullptr ? next->words.front().start : begin + seconds(window.frames);
      const bool before = segment.start - last_end > threshold || segment.start < threshold ||
                          segment.start - begin < kNear;
      const bool behind = next_start - segment.end > threshold ||
                          (next != nullptr && is_odd(*next)) || full_end - segment.end < kNear;
      if (before && behind) {
        const bool ends = seconds(window.sound) - segment.end < threshold;
        return SilenceSkip{i, ends ? std::max(window.sound, window.begin + window.frames)
                                   : frames(std::max(begin + 1, segment.start))};
      }
    }
    last_end = segment.end;
  }
  return std::nullopt;
}

}  // namespace tandem
