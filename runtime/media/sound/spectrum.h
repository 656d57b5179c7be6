// The spectrum of a whole clip, as HuggingFace's Speech2TextFeatureExtractor (in numpy) and
// ParakeetFeatureExtractor make it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "models/config/limits.h"
#include "runtime/media/sound/log_mel.h"

namespace tandem {

struct SpectrumOptions {
  SoundInput input = SoundInput::kFilterBanks;  // or kSpectrum
  int bins = 80;
  int sampling_rate = 16000;
  int hop_length = 160, window_length = 400, n_fft = 512;
  double preemphasis = 0.97;
  double dither = 0;  // of kSpectrum: the deviation of noise that is added to the samples
  // Of filter banks: each bin gets a mean of 0, a deviation of 1 over the clip.
  bool normalize_means = true, normalize_deviations = true;

  // preprocessor_config.json of the directory; what it does not say is as in the class of `input`.
  // Throws InputError naming the file and the key, also for noise that nobody can repeat (the
  // dither of filter banks).
  static SpectrumOptions load(const std::filesystem::path& directory, SoundInput input);
  // Of that many samples.
  int64_t frames_of(int64_t samples) const;
  // The fewest samples of which so many frames, at least 1, are made.
  int64_t samples_of(int64_t frames) const;
  // Frames without which there is no deviation.
  int64_t fewest_frames() const {
    return input == SoundInput::kSpectrum || normalize_deviations ? 2 : 1;
  }
};

// frames_of() frames, at least one, without LogMel::seconds. A bin that is the same in all frames
// is 0 where deviations become 1. (There it has no value.)
LogMel spectrum_of(std::span<const float> clip, const SpectrumOptions& options);

}  // namespace tandem
