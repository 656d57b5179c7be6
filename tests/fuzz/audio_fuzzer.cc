// Any bytes as a file of sound, decoded, its rate changed, and of some a log-mel spectrogram: an
// error, or finite numbers, no more than the limit of seconds makes. Seeds:
// scripts/goldens/make_sound_seeds.py.
#include <ogg/ogg.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/media/sound/log_mel.h"

namespace {

constexpr double kSeconds = 0.5;

// Mutations would hardly ever pass the checksums of Ogg's pages.
void mend_pages(std::string& bytes) {
  for (size_t at = bytes.find("OggS"); at != std::string::npos; at = bytes.find("OggS", at)) {
    ogg_page page{};
    page.header = reinterpret_cast<unsigned char*>(bytes.data() + at);
    const size_t left = bytes.size() - at;
    if (left < 27) return;
    const size_t segments = page.header[26];
    if (left < 27 + segments) return;
    size_t body = 0;
    for (size_t i = 0; i < segments; ++i) body += page.header[27 + i];
    if (left < 27 + segments + body) return;
    page.header_len = static_cast<long>(27 + segments);
    page.body = page.header + page.header_len;
    page.body_len = static_cast<long>(body);
    ogg_page_checksum_set(&page);
    at += 27 + segments + body;
  }
}

void check_samples(tandem::AudioFile& file) {
  double count = 0;
  for (std::vector<float> part; file.read(part);) {
    count += static_cast<double>(part.size());
    for (const float x : part)
      if (!std::isfinite(x)) std::abort();
  }
  if (count > 16000 * kSeconds + 100) std::abort();
}

void check_frames(tandem::AudioFile& file) {
  tandem::LogMelOptions options;
  options.chunk_length = 1;
  const tandem::LogMel mel = tandem::read_log_mel(file, options);
  if (mel.frames > options.chunk_frames() ||
      static_cast<int64_t>(mel.values.size()) != mel.frames * mel.bins)
    std::abort();
  for (const float x : mel.values)
    if (!std::isfinite(x)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const unsigned kind = size > 0 ? data[size - 1] : 0;  // says what is done with it
  try {
    std::string bytes(reinterpret_cast<const char*>(data), size);
    if (kind % 8 != 0) mend_pages(bytes);
    tandem::AudioFile file =
        tandem::AudioFile::of_bytes(std::move(bytes), "fuzz", 16000, {.seconds = kSeconds});
    if (kind % 32 == 1)
      check_frames(file);
    else
      check_samples(file);
  } catch (const tandem::InputError&) {
  }
  return 0;
}
