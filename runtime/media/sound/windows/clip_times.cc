#include "runtime/media/sound/windows/clip_times.h"

#include <algorithm>
#include <cmath>

namespace tandem {

bool names_clips(const proto::SpeechParams& params) {
  const auto& times = params.clip_timestamps();
  return times.size() > 1 || (times.size() == 1 && times[0] != 0);
}

std::vector<SoundClip> clips_of(const std::vector<double>& seconds, int64_t frames,
                                double frames_per_second) {
  const auto frame = [&](double time) {
    // (Python's round(), of halves to the even one.)
    return std::min<int64_t>(std::llrint(time * frames_per_second), frames);
  };
  std::vector<SoundClip> out;
  for (size_t i = 0; i < seconds.size(); i += 2) {
    const int64_t end = i + 1 < seconds.size() ? frame(seconds[i + 1]) : frames;
    if (const int64_t begin = frame(seconds[i]); begin < end) out.push_back({begin, end});
  }
  return out;
}

}  // namespace tandem
