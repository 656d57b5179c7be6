// Live sound, window by window, and how likely each is speech → turns of speech: where one begins,
// and where it has ended because it was silent for a while. As OpenAI's server_vad.
#pragma once

#include <cstdint>

namespace tandem {

struct TurnOptions {
  double threshold = 0.5;       // speech begins from there on; it ends 0.15 below, at least at 0.01
  int prefix_padding_ms = 300;  // a turn has that much of the sound before it
  int silence_duration_ms = 500;  // ends a turn
  bool operator==(const TurnOptions&) const = default;
};

class TurnFinder {
 public:
  explicit TurnFinder(const TurnOptions& options) : options_(options) {}

  enum class News : uint8_t { kNone, kBegins, kEnds };
  // The next window of VoiceMeter::kWindowMs.
  News add(float probability);
  bool speaking() const { return speaking_; }
  // Whether the last window was speech.
  bool voiced() const { return speaking_ && silent_ms_ == 0; }
  int silent_ms() const { return silent_ms_; }
  // The turn has ended for another reason.
  void end() { speaking_ = false; }

 private:
  TurnOptions options_;
  bool speaking_ = false;
  int silent_ms_ = 0;  // at the end of the turn so far
};

}  // namespace tandem
