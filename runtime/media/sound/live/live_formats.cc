#include "runtime/media/sound/live/live_formats.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr size_t kMostHeader = 64 * 1024;

int16_t from_mu_law(uint8_t code) {
  code = static_cast<uint8_t>(~code);
  const int magnitude = (((code & 15) * 2 + 33) << ((code >> 4) & 7)) - 33;
  return static_cast<int16_t>((code & 0x80) != 0 ? -magnitude * 4 : magnitude * 4);
}

int16_t from_a_law(uint8_t code) {
  code ^= 0x55;
  const int exponent = (code >> 4) & 7, mantissa = code & 15;
  const int magnitude = exponent == 0 ? mantissa * 16 + 8 : (mantissa * 16 + 264) << (exponent - 1);
  return static_cast<int16_t>((code & 0x80) != 0 ? magnitude : -magnitude);
}

void append_little(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 255);
}

uint32_t little(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

void decode_samples(std::string_view bytes, LiveCoding coding, std::vector<int16_t>& out) {
  if (coding == LiveCoding::kPcm16) {
    TANDEM_CHECK_EQ(bytes.size() % 2, size_t{0});
    out.reserve(out.size() + bytes.size() / 2);
    for (size_t i = 0; i < bytes.size(); i += 2)
      out.push_back(static_cast<int16_t>(little(bytes.substr(i, 2))));
    return;
  }
  for (const char c : bytes) {
    const auto code = static_cast<uint8_t>(c);
    out.push_back(coding == LiveCoding::kMuLaw ? from_mu_law(code) : from_a_law(code));
  }
}

std::string wav_file(std::span<const int16_t> samples, int rate) {
  const auto size = static_cast<uint32_t>(samples.size() * 2);
  std::string out = "RIFF";
  out.reserve(44 + size);
  append_little(out, 36 + size, 4);
  out += "WAVEfmt ";
  append_little(out, 16, 4);
  append_little(out, 1, 2);  // PCM
  append_little(out, 1, 2);  // channels
  append_little(out, static_cast<uint32_t>(rate), 4);
  append_little(out, static_cast<uint32_t>(rate) * 2, 4);
  append_little(out, 2, 2);
  append_little(out, 16, 2);
  out += "data";
  append_little(out, size, 4);
  for (const int16_t sample : samples) append_little(out, static_cast<uint16_t>(sample), 2);
  return out;
}

bool read_wav_header(std::string_view begin, const std::string& field, WavHeader& header) {
  if (begin.size() < 12) return false;
  if (begin.substr(0, 4) != "RIFF" || begin.substr(8, 4) != "WAVE")
    throw invalid_request(field, "is no WAV file");
  for (size_t at = 12;;) {
    if (at > kMostHeader) throw invalid_request(field, "its header does not end");
    if (begin.size() < at + 8) return false;
    const std::string_view name = begin.substr(at, 4);
    const uint32_t size = little(begin.substr(at + 4, 4));
    at += 8;
    if (name == "data") {
      if (header.rate == 0) throw invalid_request(field, "says no rate before its samples");
      header.bytes = at;
      return true;
    }
    if (name == "fmt ") {
      if (size < 16) throw invalid_request(field, "its header is damaged");
      if (begin.size() < at + 16) return false;
      const std::string_view format = begin.substr(at, 16);
      const uint32_t kind = little(format.substr(0, 2)), bits = little(format.substr(14, 2));
      const uint32_t channels = little(format.substr(2, 2)), rate = little(format.substr(4, 4));
      if ((kind != 1 && kind != 0xfffe) || bits != 16 || channels != 1 || rate == 0 ||
          rate > 768000)
        throw invalid_request(field, "must be of one channel and of samples of 16 bits (PCM); " +
                                         std::string("ffmpeg -i FILE -f s16le -ac 1 -ar 16000 - "
                                                     "makes such a stream"));
      header.rate = static_cast<int>(rate);
    }
    at += std::min<size_t>(size, kMostHeader) + size % 2;
  }
}

}  // namespace tandem
