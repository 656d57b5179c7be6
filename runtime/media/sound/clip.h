// Sound → what an encoder of whole clips hears: samples, as HuggingFace's Wav2Vec2FeatureExtractor
// has them, or a spectrum (spectrum.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>

#include "models/config/limits.h"
#include "runtime/media/sound/audio_file.h"
#include "runtime/media/sound/log_mel.h"
#include "runtime/media/sound/spectrum.h"

namespace tandem {

struct ClipOptions {
  int sampling_rate = 16000;
  bool normalize = false;                        // samples, to a mean of 0 and a variance of 1
  int frame_samples = 1;                         // of samples: a frame has so many
  std::optional<SpectrumOptions> spectrum = {};  // instead of samples
  // Frames that the model makes something of.
  int64_t fewest = 1, most = std::numeric_limits<int64_t>::max();

  // preprocessor_config.json of the directory, without bounds; what it does not say is as in the
  // class of that input, without a file as above. `width`: of a frame. Throws InputError naming the
  // file and the key.
  static ClipOptions load(const std::filesystem::path& directory, SoundInput input, int width);
  // The fewest samples of which so many frames are made.
  int64_t samples_of(int64_t frames) const;
  int bins() const { return spectrum ? spectrum->bins : frame_samples; }
  int hop() const { return spectrum ? spectrum->hop_length : frame_samples; }
};

// The frames of the whole file. Samples that do not fill a frame count as a frame of silence, and
// are none themselves. Throws InputError naming `field` where there are too few or too many; no
// more are read.
LogMel read_clip(AudioFile& file, const ClipOptions& options, const std::string& field);

}  // namespace tandem
