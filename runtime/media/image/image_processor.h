// What becomes of an image before the model sees it, as HuggingFace's image processors do it: size,
// numbers around 0, patches.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/config/config_reader.h"
#include "models/config/limits.h"
#include "runtime/media/image/page_image.h"
#include "runtime/media/image/patch_grid.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The keys of preprocessor_config.json, or of image_processor in processor_config.json, with the
// defaults of the class that the file names. Immutable; usable from any thread.
class ImageProcessor {
 public:
  static constexpr int kMaxSide = 4096;  // of what it makes

  // Of a checkpoint's directory; nothing where neither file is there. Throws InputError naming the
  // file and the key.
  static std::optional<ImageProcessor> load(const std::filesystem::path& directory);
  explicit ImageProcessor(const ConfigReader& in);

  // [3, height, width], row-major; of other sizes than the model's if the file says so. Throws
  // InputError (`field`) for a page that does not fit (page_image.h).
  std::vector<float> pixel_values(const Image& image, const std::string& field = "image") const;
  // Of all images; nothing where each keeps its own.
  struct Size {
    int height = 0, width = 0;
  };
  std::optional<Size> size() const;

  // Throws InputError naming the key if the encoder does not read what this makes.
  void check_for(const FrameLimits& limits, int encoder_positions, const std::string& file) const;

  // Of the bytes of a file of an image. Throws InputError (`field`).
  proto::EncoderFrames frames(std::string_view bytes, const std::string& field,
                              const ImagePatches& patches) const;
  // For any encoder of images.
  proto::EncoderFrames frames(std::string_view bytes, const std::string& field,
                              const FrameLimits& limits) const;

 private:
  Image cropped(const Image& image) const;

  std::optional<PatchGridSteps> grid_;  // then nothing else counts
  std::optional<PageSteps> page_;       // in place of a plain resize
  std::optional<Size> size_, crop_;
  Resample resample_ = Resample::kBilinear;
  // As HuggingFace has them: the factor in double, the rest in float.
  double rescale_factor_ = 1.0;
  std::array<float, 3> mean_ = {0, 0, 0}, std_ = {1, 1, 1};
};

}  // namespace tandem
