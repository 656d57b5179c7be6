// How likely each 32 ms of live sound are speech: by Silero's network, or by how loud it is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/media/sound/voice/voice_network.h"

namespace tandem {

class VoiceMeter {
 public:
  static constexpr int kWindowMs = 32;

  virtual ~VoiceMeter() = default;
  // The next samples. Appends the probability of each window of kWindowMs that they complete.
  virtual void add(std::span<const int16_t> samples, std::vector<float>& out) = 0;
};

// weights: null where there is no network. Then sound is speech that is 12 dB louder than what was
// quiet before, and than -50 dB. rate: of the samples; a multiple of 125, so that a window has
// whole ones.
std::unique_ptr<VoiceMeter> make_voice_meter(std::shared_ptr<const VoiceWeights> weights, int rate);

}  // namespace tandem
