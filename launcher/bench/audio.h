// Recordings for the audio route: files as they are, or a tone.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::bench {

struct Recording {
  std::string name;   // of the file
  std::string type;   // audio/wav or audio/flac
  std::string bytes;  // the whole file
  double seconds = 0;
};

// Looks into the header for the length. Throws InputError naming the file if it is neither WAV nor
// FLAC.
Recording read_recording(const std::filesystem::path& file);
// One file, or all .wav and .flac files of a folder, by name.
std::vector<Recording> read_recordings(const std::filesystem::path& path);
// A sine of that many seconds: 16 bits, one channel, 16 kHz.
Recording make_tone(double seconds, double hertz);

}  // namespace tandem::bench
