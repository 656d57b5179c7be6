#include "runtime/media/sound/windows/window_frames.h"

#include <algorithm>
#include <cmath>

namespace tandem {

proto::EncoderFrames window_of(const LogMel& mel, const SpeechSettings& settings, int64_t begin,
                               int64_t most) {
  proto::EncoderFrames out;
  out.set_num_frames(static_cast<int32_t>(settings.clip ? mel.frames : settings.window_frames));
  out.set_width(mel.bins);
  const int64_t end = std::min(begin + std::min(settings.window_frames, most), mel.frames);
  const int64_t kept = std::ssize(mel.values) / std::max(mel.bins, 1);
  const auto row = [&](int64_t i) { return mel.values.begin() + i * mel.bins; };
  auto& values = *out.mutable_values();
  values.Reserve(out.num_frames() * out.width());
  if (begin < kept) values.Add(row(begin), row(std::min(end, kept)));
  for (int64_t i = std::max(begin, kept); i < end && kept > 0; ++i)
    values.Add(row(kept - 1), row(kept));
  values.Resize(out.num_frames() * out.width(), 0.0f);
  return out;
}

int64_t frames_of_sound(const LogMel& mel, const SpeechSettings& settings) {
  const int64_t samples = std::llround(mel.seconds * settings.mel.sampling_rate);
  return std::min(samples / settings.mel.hop_length, mel.frames);
}

}  // namespace tandem
