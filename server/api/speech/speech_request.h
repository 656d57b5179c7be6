// The forms of /v1/audio/transcriptions and /v1/audio/translations: requests to the engine, and the
// format of the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/media/media_source.h"
#include "runtime/media/sound/transcript.h"
#include "runtime/protocol/tandem.pb.h"
#include "server/api/application.h"
#include "server/api/fields/field_names.h"
#include "server/api/speech/sound_form.h"
#include "server/http/http.h"

namespace tandem::server {

enum class SpeechTask : uint8_t { kTranscribe, kTranslate };

struct SpeechRequest {
  std::optional<MediaSource> file;  // always there
  proto::SpeechParams params;
  proto::GenerationOptions options;
  std::string task;
  TranscriptFormat format = TranscriptFormat::kJson;
  bool segments = false, words = false;  // are part of the answer
  bool stream = false;
  bool vad_if_possible = false;  // silence is cut out by an engine that can
  bool is_huggingface = false;   // {"text", "chunks"}, whatever the format
  std::string times_field;       // what asks for times, if return_timestamps does not
  int32_t priority = 0;
  double timeout = 0;  // seconds; 0: none
  FieldNames names;    // that the client used

  // The client's name of a parameter of the engine's.
  std::string field_of(const std::string& param) const;
};

// Throws InputError naming the field, also if the model takes no sound.
SpeechRequest parse_speech(SoundForm form, SpeechTask task, const AppContext& app);

}  // namespace tandem::server
