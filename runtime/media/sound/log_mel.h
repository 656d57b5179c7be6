// Sound → log-mel spectrogram: HuggingFace's WhisperFeatureExtractor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/audio_file.h"
#include "runtime/media/sound/fourier.h"
#include "runtime/media/sound/mel_scale.h"

namespace tandem {

struct LogMelOptions {
  int bins = 80;  // feature_size
  int sampling_rate = 16000;
  int hop_length = 160;
  int n_fft = 400;
  int chunk_length = 30;  // seconds

  // preprocessor_config.json of the directory; what it does not say is as above. Throws InputError
  // naming the file and the key.
  static LogMelOptions load(const std::filesystem::path& directory);
  int64_t chunk_samples() const { return int64_t{chunk_length} * sampling_rate; }
  int64_t chunk_frames() const { return chunk_samples() / hop_length; }
  double frames_per_second() const { return static_cast<double>(sampling_rate) / hop_length; }
  double seconds_of(int64_t frames) const {
    return static_cast<double>(frames) * hop_length / sampling_rate;
  }
};

// Or what a model hears instead: frames of a clip (clip.h).
struct LogMel {
  int bins = 0;
  int64_t frames = 0;
  double seconds = 0;         // of the sound, without what was added to it
  std::vector<float> values;  // [at most frames, bins]: those behind are as the last of these
};

// Samples in, frames out. Numbers are kept for frames, not for samples.
class LogMelMaker {
 public:
  explicit LogMelMaker(const LogMelOptions& options);
  void add(std::span<const float> samples);
  int64_t samples() const { return samples_; }
  // Of all that came, more than n_fft / 2 samples: a frame for each hop, from the middle of the
  // first window on, the ends mirrored. Nothing is 8 decades below the loudest.
  LogMel finish();

 private:
  void frames(int64_t count);

  LogMelOptions options_;
  Fourier fourier_;
  std::vector<double> window_;
  std::vector<MelFilter> filters_;
  std::vector<float> buffer_;  // samples from the next frame's first on
  bool mirrored_ = false;      // the beginning
  int64_t samples_ = 0, frames_ = 0;
  std::vector<float> values_;
};

// Leaves out the frames at the end that are alike, but for one.
void trim(LogMel& mel);
// Of a whole file: one that is not longer than a chunk is filled up with silence to a chunk.
LogMel read_log_mel(AudioFile& file, const LogMelOptions& options);

}  // namespace tandem
