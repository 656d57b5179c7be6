// What counts as speech: faster-whisper's VadOptions, with its defaults.
#pragma once

#include <limits>
#include <optional>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct VoiceOptions {
  double threshold = 0.5;  // speech begins from there on
  // It ends below; nothing: 0.15 less than the threshold, at least 0.01.
  std::optional<double> neg_threshold;
  double min_speech_ms = 0;  // shorter speech is none
  // Longer speech is cut: at its last silence of 98 ms, or there and then.
  double max_speech_s = std::numeric_limits<double>::infinity();
  double min_silence_ms = 2000;  // shorter silence does not end speech
  double pad_ms = 400;           // what is added on both sides

  // What a request says (vad_…), else the defaults.
  static VoiceOptions of(const proto::SpeechParams& asked);
};

}  // namespace tandem
