// JSON → SpeechParams: HuggingFace's parameters of speech, by their names. What they mean for a
// model is runtime/media/sound/transcription_params.h's.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

bool is_speech_param(const std::string& name);

// `params`: an object with such names only, or null. `temperature` and `stride_length_s` are
// numbers or lists of them; null switches off what the model says. `vad_parameters` is an object
// with faster-whisper's names of the parameters vad_…, and `initial_prompt` its name of the prompt,
// as text or ids; `prefix` too may be ids, and `clip_timestamps` a text with commas. Throws
// InputError naming the parameter.
proto::SpeechParams read_speech_params(const nlohmann::json& params);

// The bounds of parameters that somebody else may have made, as those of read_speech_params().
void check_speech_params(const proto::SpeechParams& params);

inline constexpr int kMaxTemperatures = 16;
inline constexpr size_t kMaxSpeechPromptBytes = 65536;
inline constexpr int kMaxSpeechPromptIds = 65536;
inline constexpr int kMaxClipTimestamps = 4096;    // of a request
inline constexpr int kMaxDetectionSegments = 480;  // windows of four hours

}  // namespace tandem
