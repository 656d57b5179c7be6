// Raw sound as it comes over a wire: bytes → samples of 16 bits, and back as a WAV file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

enum class LiveCoding : uint8_t { kPcm16, kMuLaw, kALaw };  // little endian; G.711

struct LiveFormat {
  LiveCoding coding = LiveCoding::kPcm16;
  int rate = 24000;  // samples a second; of G.711 8000
  bool operator==(const LiveFormat&) const = default;
  size_t sample_bytes() const { return coding == LiveCoding::kPcm16 ? 2 : 1; }
};

// Whole samples, which are appended. REQUIRES: bytes.size() is a multiple of sample_bytes().
void decode_samples(std::string_view bytes, LiveCoding coding, std::vector<int16_t>& out);
// A file of one channel.
std::string wav_file(std::span<const int16_t> samples, int rate);

// What stands before the samples of a WAV file that is a stream: its lengths are not believed.
struct WavHeader {
  size_t bytes = 0;  // before the first sample
  int rate = 0;
};
// Nothing is known yet: more bytes are needed. Throws InputError naming `field`: no RIFF file, or
// one whose samples are not of 16 bits and one channel; a header of more than 64 KiB.
bool read_wav_header(std::string_view begin, const std::string& field, WavHeader& header);

}  // namespace tandem
