// Sound as it is transcribed: in one piece, or cut into chunks that share their ends, as
// HuggingFace's automatic-speech-recognition pipeline does (chunk_length_s, stride_length_s).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/media/sound/audio_file.h"
#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a request's sound is called in messages, where it has no name of its own.
inline constexpr const char* kSoundField = "prompt.multi_modal_data.audio";

// In samples.
struct ChunkLengths {
  int64_t chunk = 0;  // 0: one piece
  int64_t left = 0, right = 0;

  // Without stride_length_s neighbours share a sixth of the chunk on both sides. Throws InputError
  // naming the parameter: a chunk that is longer than a window or shorter than 5 seconds (or the
  // window), strides that together are more than two thirds of it.
  static ChunkLengths of(const proto::SpeechParams& params, const LogMelOptions& mel);
};

struct SpeechPiece {
  LogMel mel;
  // In seconds: of the piece, and of what it shares with the one before and the one behind it.
  double length = 0, left = 0, right = 0;
};

struct SpeechInput {
  double seconds = 0;
  std::vector<SpeechPiece> pieces;         // none: nothing is said
  std::vector<std::string> warnings = {};  // AudioFile::warnings()
  std::vector<SpeechSpan> speech = {};     // AudioFile::speech(): where the pieces were
};

// Of a whole file, as the model hears it. Throws InputError: what AudioFile and ChunkLengths throw,
// naming `field` what read_clip() does, and naming vad_filter: it is asked for, and there is no
// network that finds speech.
SpeechInput read_speech(AudioFile& file, const SpeechSettings& settings, const std::string& field,
                        const proto::SpeechParams& params = {});

}  // namespace tandem
