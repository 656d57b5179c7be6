// Settings of a Whisper as a checkpoint's files give them, without the files.
#pragma once

#include <memory>

#include "runtime/media/sound/speech_settings.h"

namespace tandem::testing {

// Windows of 30 seconds; ids are those of tests/data/goldens/whisper-tiny-rand.
inline std::shared_ptr<SpeechSettings> whisper_settings() {
  auto out = std::make_shared<SpeechSettings>();
  out->mel.bins = 2;
  out->window_frames = 3000;
  out->frames_per_position = 2;
  out->decoder_positions = 64;
  out->decoder_start = 501;
  out->end_tokens = {500};
  out->languages = {{"<|en|>", 502}, {"<|de|>", 503}};
  out->tasks = {{"transcribe", 602}, {"translate", 601}};
  out->multilingual = true;
  out->no_timestamps = 606;
  out->prev_start = 604;
  out->max_length = 64;
  out->vocab_size = 2108;
  return out;
}

}  // namespace tandem::testing
