// Which parts of a sound are transcribed: faster-whisper's clip_timestamps.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// In frames: [begin, end).
struct SoundClip {
  int64_t begin = 0, end = 0;
  bool operator==(const SoundClip&) const = default;
};

// Whether a request names parts; [0] is the whole sound.
bool names_clips(const proto::SpeechParams& params);

// Clips of a sound of so many frames, in order; those that have none are left out. seconds: begin,
// end, begin, …, which do not decrease; without the last end: to the end of the sound.
std::vector<SoundClip> clips_of(const std::vector<double>& seconds, int64_t frames,
                                double frames_per_second);

}  // namespace tandem
