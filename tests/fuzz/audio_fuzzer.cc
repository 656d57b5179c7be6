// Any bytes as a file of sound, decoded, its rate changed: an error, or finite numbers, no more
// than the limit of seconds makes. In this process, without the decoder's sandbox, so that it is
// the reading that is tried. Seeds: scripts/goldens/make_sound_seeds.py.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/sound/sound_decoder.h"

namespace {

constexpr double kSeconds = 0.5;

// Ogg's: of the polynomial 0x04c11db7, from the highest bit down.
uint32_t page_checksum(const std::string& bytes, size_t at, size_t size) {
  uint32_t out = 0;
  for (size_t i = 0; i < size; ++i) {
    const bool own = i >= 22 && i < 26;  // it stands there itself
    out ^= own ? 0 : uint32_t{static_cast<uint8_t>(bytes[at + i])} << 24;
    for (int bit = 0; bit < 8; ++bit) out = out << 1 ^ ((out >> 31) != 0 ? 0x04c11db7u : 0);
  }
  return out;
}

// Mutations would hardly ever pass the checksums of Ogg's pages.
void mend_pages(std::string& bytes) {
  for (size_t at = bytes.find("OggS"); at != std::string::npos; at = bytes.find("OggS", at)) {
    const size_t left = bytes.size() - at;
    if (left < 27) return;
    const size_t segments = static_cast<uint8_t>(bytes[at + 26]);
    size_t size = 27 + segments;
    if (left < size) return;
    for (size_t i = 0; i < segments; ++i) size += static_cast<uint8_t>(bytes[at + 27 + i]);
    if (left < size) return;
    const uint32_t sum = page_checksum(bytes, at, size);
    for (size_t i = 0; i < 4; ++i) bytes[at + 22 + i] = static_cast<char>(sum >> (8 * i));
    at += size;
  }
}

struct Check final : tandem::decoder::SoundSink {
  double count = 0;
  void samples(std::span<const float> samples) override {
    count += static_cast<double>(samples.size());
    for (const float x : samples)
      if (!std::isfinite(x)) std::abort();
    if (count > 16000 * kSeconds) std::abort();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const unsigned kind = size > 0 ? data[size - 1] : 0;  // says what is done with it
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (kind % 8 != 0) mend_pages(bytes);
  tandem::decoder::MemorySource source(bytes);
  Check check;
  try {
    const auto lines = tandem::decoder::decode_sound(source, 16000, {kSeconds, 64}, check);
    if (lines.size() > 16) std::abort();
  } catch (const tandem::decoder::DecodeError&) {
  } catch (const std::bad_alloc&) {  // the program ends, with a status that says so
  }
  return 0;
}
