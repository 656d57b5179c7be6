// WAV: RIFF chunks, little-endian. FLAC: "fLaC", then the block STREAMINFO, big-endian.
#include "launcher/bench/audio.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace tandem::bench {
namespace {

namespace fs = std::filesystem;

uint64_t little_endian(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

uint64_t big_endian(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// 0: not a WAV file whose length can be told.
double wav_seconds(const std::string& bytes) {
  if (bytes.size() < 12 || bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0)
    return 0;
  uint64_t bytes_per_second = 0;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const uint64_t size = little_endian(bytes, at + 4, 4);
    if (bytes.compare(at, 4, "fmt ") == 0 && at + 20 <= bytes.size())
      bytes_per_second = little_endian(bytes, at + 16, 4);
    if (bytes.compare(at, 4, "data") == 0 && bytes_per_second > 0)
      // Writers that do not know the size yet put in 2³²-1.
      return static_cast<double>(std::min<uint64_t>(size, bytes.size() - at - 8)) /
             static_cast<double>(bytes_per_second);
    at += 8 + size + size % 2;
  }
  return 0;
}

// 0: not a FLAC file whose length can be told.
double flac_seconds(const std::string& bytes) {
  if (bytes.size() < 26 || bytes.compare(0, 4, "fLaC") != 0 || (bytes[4] & 0x7f) != 0) return 0;
  // From byte 18 of the file: 20 bits of rate, 3 of channels, 5 of depth, 36 of samples.
  const uint64_t fields = big_endian(bytes, 18, 8);
  const uint64_t rate = fields >> 44, samples = fields & 0xfffffffff;
  return rate == 0 ? 0 : static_cast<double>(samples) / static_cast<double>(rate);
}

void append(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

Recording read_recording(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw invalid_request("--dataset-path", "cannot read " + file.string());
  Recording out;
  out.name = file.filename().string();
  out.bytes.assign(std::istreambuf_iterator<char>(in), {});
  out.type = "audio/wav";
  out.seconds = wav_seconds(out.bytes);
  if (out.seconds <= 0) {
    out.type = "audio/flac";
    out.seconds = flac_seconds(out.bytes);
  }
  if (out.seconds <= 0)
    throw invalid_request("--dataset-path",
                          file.string() + " is neither WAV nor FLAC, or is empty");
  return out;
}

std::vector<Recording> read_recordings(const fs::path& path) {
  if (!fs::is_directory(path)) return {read_recording(path)};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".wav" || extension == ".flac") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw invalid_request("--dataset-path", path.string() + " has no .wav or .flac file");
  std::vector<Recording> out;
  for (const fs::path& file : files) out.push_back(read_recording(file));
  return out;
}

Recording make_tone(double seconds, double hertz) {
  constexpr uint32_t kRate = 16000;
  constexpr double kPi = 3.14159265358979323846;
  const auto samples = static_cast<uint32_t>(std::lround(seconds * kRate));
  Recording out{"tone.wav", "audio/wav", "RIFF", seconds};
  append(out.bytes, 36 + 2 * samples, 4);
  out.bytes += "WAVEfmt ";
  append(out.bytes, 16, 4);         // of the chunk
  append(out.bytes, 1, 2);          // PCM
  append(out.bytes, 1, 2);          // channels
  append(out.bytes, kRate, 4);      // samples per second
  append(out.bytes, 2 * kRate, 4);  // bytes per second
  append(out.bytes, 2, 2);          // bytes of a sample of all channels
  append(out.bytes, 16, 2);         // bits of a sample
  out.bytes += "data";
  append(out.bytes, 2 * samples, 4);
  for (uint32_t i = 0; i < samples; ++i) {
    const double value = 8000 * std::sin(2 * kPi * hertz * i / kRate);
    append(out.bytes, static_cast<uint32_t>(std::lround(value)), 2);
  }
  return out;
}

}  // namespace tandem::bench
