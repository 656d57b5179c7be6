// When the words of a window are likely to be said, and whether somebody says them:
// faster-whisper's rules for silence in which a model makes words up
// (hallucination_silence_threshold).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/media/sound/words/word_groups.h"

namespace tandem {

struct HeardWord {
  WordGroup group;
  double start = 0, end = 0;  // seconds
  double probability = 0;
};

// With the words that begin in it. Seconds of the sound.
struct HeardSegment {
  double start = 0, end = 0;
  size_t tokens = 0;  // of its text
  std::vector<HeardWord> words = {};
};

// words: of split_words(), of all segments, in seconds of the window, which begins at `begin`.
// last_speech: where the last word before the window ended. Cuts words that are more than twice as
// long as others where a sentence ends or a pause was, so that silence lies between words; joins
// punctuation; gives each segment its words and their times.
void place_words(std::vector<HeardWord> words, double begin, double last_speech,
                 std::vector<HeardSegment>& segments);

// A window of a sound. Frames are 10 ms apart.
struct HeardWindow {
  int64_t begin = 0, frames = 0;  // that were heard
  int64_t longest = 0;            // frames of a whole window
  int64_t sound = 0;              // frames of the whole sound
  double frames_per_second = 100;
  double last_speech = 0;  // as of place_words()
};

struct SilenceSkip {
  size_t kept = 0;    // segments that somebody says
  int64_t begin = 0;  // of the next window, behind this one's
};

// Words that are improbable, very short or very long are odd; a segment of them may be made up.
// Silence of more than `threshold` seconds before the first one is skipped; one with silence or
// others on both sides is left out, with all behind it. Nothing: all segments stay.
std::optional<SilenceSkip> find_silence(const std::vector<HeardSegment>& segments,
                                        const HeardWindow& window, double threshold);

}  // namespace tandem
