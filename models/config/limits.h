// The sizes of a model, for code that runs it and does not know its family.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "kernels/core/types.h"

namespace tandem {

// Of an encoder whose frames are the patches of an image, row by row. A frame is a patch's values,
// channel by channel. Incomplete patches at the right and below are not read, or filled up by
// zeros.
struct ImagePatches {
  static constexpr int kChannels = 3;
  int height = 0, width = 0;  // of the image, which has no other size
  int patch_height = 0, patch_width = 0;
  bool filled_up = false;

  int rows() const { return (height + (filled_up ? patch_height - 1 : 0)) / patch_height; }
  int columns() const { return (width + (filled_up ? patch_width - 1 : 0)) / patch_width; }
  int64_t count() const { return int64_t{rows()} * columns(); }
  int frame_width() const { return kChannels * patch_height * patch_width; }
};

// Of an encoder that reads an image of any shape. A frame has the row and the column of a patch,
// from 1, and then its values, pixel by pixel.
struct PatchGrid {
  int patch_values = 0;

  static constexpr int kPlace = 2;  // numbers before the values
  int frame_width() const { return kPlace + patch_values; }
};

// What an encoder of sound hears.
enum class SoundInput : uint8_t {
  kLogMel,  // spectrograms of windows, all of one length
  // Of a whole clip of any length:
  kSamples,      // its samples, as many in a frame as the frame is wide
  kFilterBanks,  // logarithms of Kaldi's filter banks, normed over the clip
  kSpectrum,     // NeMo's log-mel spectrogram, normed over the clip
};

// Of an encoder that reads ids, and frames beside them.
struct FramesBesideIds {
  // Stands for a position of an image. A request with an image has image_positions of them. -1:
  // no id does.
  int32_t image_id = -1;
  int64_t image_positions = 0;
  bool has_boxes = false;  // an id has a place on the image
  // Encoder positions; `frames` are their values, none where a request has ids alone.
  std::function<int64_t(std::span<const int32_t> ids, std::span<const float> frames)> length_of =
      [](std::span<const int32_t> ids, std::span<const float>) { return std::ssize(ids); };
};

// Of an encoder that reads frames.
struct FrameLimits {
  int width = 0;  // numbers of a frame
  // Encoder positions for that many frames (at least 1); not falling. 0: too few frames.
  std::function<int64_t(int64_t num_frames)> length_of = [](int64_t num_frames) {
    return num_frames;
  };
  std::optional<ImagePatches> image = {};  // then a request has exactly its patches
  std::optional<SoundInput> sound = {};
  std::optional<PatchGrid> grid = {};
  std::optional<FramesBesideIds> beside_ids = {};  // absent: it reads no ids

  bool reads_images() const { return image.has_value() || grid.has_value(); }
};

// The padding id of each side, which has position -1: the row before that of position 0. Positions
// of ids do not count it. Generated tokens count by their place. Absent: all ids count.
struct PositionPadding {
  std::optional<int32_t> encoder = {}, decoder = {};
};

struct ModelLimits {
  // The most positions of a request's encoder sequence (one for each id), and the most tokens of
  // its decoder. Absent: no limit.
  std::optional<int> encoder_positions, decoder_positions;
  std::optional<FrameLimits> frames = {};  // without: the encoder reads ids alone
  // The encoder has global attention. By default a request's first tokens, this many, have it.
  // Absent: the model has none.
  std::optional<int> default_global_tokens = {};
  PositionPadding position_padding = {};
  // The tokens of a decoder prompt attend to all of it, as the cached path of some of HuggingFace's
  // classes has it; those behind look back (runtime/sampling/whole_prompt.h).
  bool whole_prompts = false;
  int encoder_vocabulary = 0;  // ids of the encoder's own; 0: they are the decoder's
  int hidden_size = 0;
  // Elements of activations alive at once in a layer, for each token.
  int64_t scratch_values_per_token = 0;
  int rows_per_sequence = 0;  // that an encoder computes for each sequence beside its tokens
  int64_t widest_linear = 0;  // output features of the widest linear layer but the vocabulary's
  // Elements of keys and values over all decoder layers and ranks: for each decoder token in
  // self-attention, for each encoder token in cross-attention.
  int64_t self_cache_values_per_token = 0, cross_cache_values_per_token = 0;
  int64_t cache_heads_per_token = 0;  // whose keys and values these are, in either cache

  bool reads_ids() const { return !frames || frames->beside_ids.has_value(); }

  size_t scratch_bytes_per_token(DType activations) const {
    return static_cast<size_t>(scratch_values_per_token) * size_of(activations);
  }
};

struct ModelConfig;
// As the configuration's family has them (models/family.h).
ModelLimits limits_of(const ModelConfig& config);

}  // namespace tandem
