// Sounds for tests, and files of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::testing {

// Two tones, one of them rising, of a fixed formula (tests compare with HuggingFace's numbers).
inline std::vector<float> two_tones(int64_t samples) {
  std::vector<float> out;
  for (int64_t i = 0; i < samples; ++i) {
    const auto t = static_cast<double>(i);
    out.push_back(static_cast<float>(0.3 * std::sin(0.17 * t) + 0.2 * std::sin(1e-6 * t * t)));
  }
  return out;
}

// The clip k of scripts/goldens/make_clip_golden.py.
inline std::vector<float> clip_samples(int64_t k, int64_t count) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(i * (i + 37 + 11 * k) % 2003 - 1001) / 4096);
  return out;
}

inline std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 255);
  return out;
}

// A WAV file of 32-bit floats; `samples` has those of the channels in turn.
inline std::string float_wav(const std::vector<float>& samples, int rate, int channels = 1) {
  const std::string data(reinterpret_cast<const char*>(samples.data()), samples.size() * 4);
  const auto frame = static_cast<uint64_t>(4 * channels);
  return "RIFF" + little_endian(36 + data.size(), 4) + "WAVEfmt " + little_endian(16, 4) +
         little_endian(3, 2) + little_endian(static_cast<uint64_t>(channels), 2) +
         little_endian(static_cast<uint64_t>(rate), 4) +
         little_endian(static_cast<uint64_t>(rate) * frame, 4) + little_endian(frame, 2) +
         little_endian(32, 2) + "data" + little_endian(data.size(), 4) + data;
}

}  // namespace tandem::testing
