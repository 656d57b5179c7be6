// Sound → the samples of a whole clip: HuggingFace's Wav2Vec2FeatureExtractor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "runtime/media/sound/audio_file.h"
#include "runtime/media/sound/log_mel.h"

namespace tandem {

struct ClipOptions {
  int sampling_rate = 16000;
  bool normalize = false;  // to a mean of 0 and a variance of 1
  // Samples that the model makes something of.
  int64_t fewest = 1, most = std::numeric_limits<int64_t>::max();

  // preprocessor_config.json of the directory, without bounds; what it does not say is as in that
  // class, without a file as above. Throws InputError naming the file and the key.
  static ClipOptions load(const std::filesystem::path& directory);
};

// All samples of the file, each a frame. Throws InputError naming `field` where they are too few or
// too many; no more are read.
LogMel read_clip(AudioFile& file, const ClipOptions& options, const std::string& field);

}  // namespace tandem
