// How likely windows of sound are speech → where speech begins and ends. The rule of Silero's
// get_speech_timestamps(), with faster-whisper's defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/media/sound/voice/voice_options.h"

namespace tandem {

// In samples: [begin, end).
struct SpeechSpan {
  int64_t begin = 0, end = 0;
  bool operator==(const SpeechSpan&) const = default;
};

// Windows in, spans out. A plain state machine.
class SpeechFinder {
 public:
  // `window`: samples of a probability; `rate`: samples of a second.
  SpeechFinder(const VoiceOptions& options, int64_t window, int rate);

  // The next window's.
  void add(float probability);
  // There are no more than these samples. They may end in the last window.
  void finish(int64_t samples);

  // The spans that add() and finish() completed since the last call, in order.
  std::vector<SpeechSpan> take();
  // The next span begins there or later.
  int64_t next_from() const;
  // It has all samples from next_from() on up to here; that or less: nothing is certain yet.
  int64_t certain_to() const;

 private:
  void end_speech(int64_t end);
  void open();
  void settle(int64_t end);
  int64_t speech_to() const;

  float threshold_, neg_threshold_;  // compared as numpy does
  int64_t window_;
  double min_speech_, max_speech_, min_silence_, short_silence_, pad_;  // in samples
  int64_t now_ = 0;                    // where the next window begins
  int64_t begin_ = -1;                 // of speech that goes on; -1: none does
  int64_t silent_from_ = 0;            // in it; 0: it is not silent
  int64_t cut_end_ = 0, resumed_ = 0;  // around its last short silence; 0: there was none
  int64_t padded_ = -1;             // the padded begin_, once the speech is certain; -1: it is not
  std::optional<SpeechSpan> last_;  // speech that has ended; its end is not padded yet
  std::vector<SpeechSpan> found_;
};

}  // namespace tandem
