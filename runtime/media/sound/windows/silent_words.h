// Leaves out what a model makes up in silence, by times of words: faster-whisper's
// hallucination_silence_threshold.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/media/sound/segments.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/words/heard_words.h"
#include "text/tokenizer.h"

namespace tandem {

// Of one piece of sound, window after window.
class SilentWords {
 public:
  // tokenizer outlives it. threshold: seconds; frames: of the sound.
  SilentWords(std::shared_ptr<const SpeechSettings> settings, const Tokenizer& tokenizer,
              double threshold, int64_t frames);

  struct Window {
    SpeechWindow place;
    std::string language;  // its token
    // Of each of its tokens: where it ends, seconds from the window's begin; how likely it was.
    const std::vector<double>& ends;
    const std::vector<double>& probabilities;
  };
  // Leaves out segments of the window that nobody says. Returns the frame where the next window
  // begins then.
  std::optional<int64_t> leave_out(const Window& window, WindowSegments& cut);

 private:
  std::vector<HeardSegment> hear(const Window& window, const WindowSegments& cut) const;

  std::shared_ptr<const SpeechSettings> settings_;
  const Tokenizer& tokenizer_;
  double threshold_;
  int64_t frames_;
  double last_speech_ = 0;  // where the last word ended, seconds
};

}  // namespace tandem
