// What the encoder gets of a window of sound.
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Frames [begin, begin + settings.window_frames) of a sound, `most` of them at most; behind those
// and behind the sound's end zeros. Of a clip all.
proto::EncoderFrames window_of(const LogMel& mel, const SpeechSettings& settings, int64_t begin,
                               int64_t most = std::numeric_limits<int64_t>::max());

// Of the sound, without what was added to it.
int64_t frames_of_sound(const LogMel& mel, const SpeechSettings& settings);

}  // namespace tandem
