// A file of sound, or the sound of a film → mono samples of one rate.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/media/decoder/byte_source.h"

namespace tandem::decoder {

// What a file may be. What it says of itself is not believed: it is counted as it is read.
struct SoundLimits {
  double seconds = 4 * 3600;
  int channels = 64;
};

class SoundSink {
 public:
  virtual ~SoundSink() = default;
  virtual void samples(std::span<const float> samples) = 0;
  // At the end: how long the sound is, by the file's own samples and rates.
  virtual void length(double) {}
};

// The samples of `ffmpeg -i FILE -ar RATE -ac 1 -f f32le -`. What is damaged is skipped, as there.
// Returns what could not be decoded, a few lines. Throws DecodeError: it is no sound, has a rate or
// channels that nobody has, is longer than the limit, has no samples, or such as are not numbers.
std::vector<std::string> decode_sound(ByteSource& source, int rate, const SoundLimits& limits,
                                      SoundSink& sink);

}  // namespace tandem::decoder
