#include "runtime/media/sound/voice/voice_options.h"

namespace tandem {

VoiceOptions VoiceOptions::of(const proto::SpeechParams& asked) {
  VoiceOptions out;
  if (asked.has_vad_threshold()) out.threshold = asked.vad_threshold();
  if (asked.has_vad_neg_threshold()) out.neg_threshold = asked.vad_neg_threshold();
  if (asked.has_vad_min_speech_duration_ms())
    out.min_speech_ms = asked.vad_min_speech_duration_ms();
  if (asked.has_vad_max_speech_duration_s()) out.max_speech_s = asked.vad_max_speech_duration_s();
  if (asked.has_vad_min_silence_duration_ms())
    out.min_silence_ms = asked.vad_min_silence_duration_ms();
  if (asked.has_vad_speech_pad_ms()) out.pad_ms = asked.vad_speech_pad_ms();
  return out;
}

}  // namespace tandem
