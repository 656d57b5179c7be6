#include "runtime/media/sound/live/turn_finder.h"

#include <algorithm>

#include "runtime/media/sound/live/voice_meter.h"

namespace tandem {

TurnFinder::News TurnFinder::add(float probability) {
  const double p = static_cast<double>(probability);
  if (!speaking_) {
    if (p < options_.threshold) return News::kNone;
    speaking_ = true;
    silent_ms_ = 0;
    return News::kBegins;
  }
  if (p >= std::max(options_.threshold - 0.15, 0.01)) {
    silent_ms_ = 0;
    return News::kNone;
  }
  silent_ms_ += VoiceMeter::kWindowMs;
  if (silent_ms_ < options_.silence_duration_ms) return News::kNone;
  speaking_ = false;
  return News::kEnds;
}

}  // namespace tandem
