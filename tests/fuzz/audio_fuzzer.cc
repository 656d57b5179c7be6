// Any bytes as a file of sound, decoded to a log-mel spectrogram: an error, or frames of finite
// numbers, no more than the limit of seconds makes.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/media/sound/log_mel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr double kSeconds = 2;
  try {
    tandem::AudioFile file =
        tandem::AudioFile::of_bytes(std::string(reinterpret_cast<const char*>(data), size), "fuzz",
                                    16000, {.seconds = kSeconds});
    tandem::LogMelOptions options;
    options.chunk_length = 1;
    const tandem::LogMel mel = tandem::read_log_mel(file, options);
    if (mel.frames > static_cast<int64_t>(100 * kSeconds) + 1 ||
        static_cast<int64_t>(mel.values.size()) != mel.frames * mel.bins)
      std::abort();
    for (const float x : mel.values)
      if (!std::isfinite(x)) std::abort();
  } catch (const tandem::InputError&) {
  }
  return 0;
}
