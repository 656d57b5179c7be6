// tandem transcribe --live: sound from standard input becomes text while it comes.
#pragma once

#include <string>

#include "runtime/engine/engine_api.h"
#include "runtime/media/sound/live/live_transcriber.h"

namespace tandem::launcher {

struct LiveCommand {
  LiveSettings settings;
  bool json = false;      // a line of JSON for each event
  std::string vad_model;  // VoiceSource's
};

// Reads to the end: a WAV file of one channel and 16 bits, or such samples alone, 16000 a second.
// Returns the exit status. Throws InputError: what comes is no such sound.
int transcribe_live(EngineApi& engine, const LiveCommand& command);

}  // namespace tandem::launcher
