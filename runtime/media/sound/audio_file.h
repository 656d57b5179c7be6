// A file of sound, read as mono at one rate: libsndfile decodes (WAV, FLAC, Ogg Vorbis and Opus,
// MP3, AIFF, CAF and others), libsamplerate changes the rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

// What a file may be. What it says of itself is not believed: it is counted as it is read.
struct AudioLimits {
  double seconds = 4 * 3600;
  int channels = 64;
};

// Reads block by block, so that memory does not grow with the file. Used by one thread.
class AudioFile {
 public:
  // `field` is named in errors. Throws InputError: it cannot be opened, is no sound, is cut, has a
  // rate or channels that nobody has, or is longer than the limit.
  static AudioFile open(const std::filesystem::path& path, const std::string& field, int rate,
                        const AudioLimits& limits = {});
  // The bytes of a file.
  static AudioFile of_bytes(std::string bytes, const std::string& field, int rate,
                            const AudioLimits& limits = {});
  AudioFile(AudioFile&&) noexcept;
  ~AudioFile();

  // The next samples, the mean of the channels; false: there are no more. Throws InputError for
  // what cannot be decoded, for numbers that are not finite, for files that end before they say.
  bool read(std::vector<float>& samples);
  // Of what has been read, by the file's own samples and rate.
  double seconds() const;

 private:
  struct State;
  explicit AudioFile(std::unique_ptr<State> state);
  static void check_header(const State& state);

  std::unique_ptr<State> state_;
};

}  // namespace tandem
