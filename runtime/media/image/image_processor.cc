#include "runtime/media/image/image_processor.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/media/image/image_file.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using Size = ImageProcessor::Size;

using Channels = std::array<float, 3>;
constexpr Channels kHalf{0.5f, 0.5f, 0.5f}, kImagenetMean{0.485f, 0.456f, 0.406f},
    kImagenetStd{0.229f, 0.224f, 0.225f}, kClipMean{0.48145466f, 0.4578275f, 0.40821073f},
    kClipStd{0.26862954f, 0.26130258f, 0.27577711f};

// What differs between HuggingFace's classes, whose names begin so.
struct Defaults {
  const char* name;
  Size size;
  Resample resample = Resample::kBilinear;
  Channels mean = kHalf, std = kHalf;
  bool center_crop = false;
  enum class Kind : uint8_t { kPlain, kPage, kPageWithMargin, kGrid } kind = Kind::kPlain;
};
using Kind = Defaults::Kind;
constexpr Defaults kClasses[] = {
    {"ViT", {224, 224}},
    {"DeiT", {256, 256}, Resample::kBicubic, kHalf, kHalf, /*center_crop=*/true},
    {"Blip", {384, 384}, Resample::kBicubic, kClipMean, kClipStd},
    {"CLIP", {224, 224}, Resample::kBicubic, kClipMean, kClipStd, /*center_crop=*/true},
    {"Gemma3", {224, 224}},
    {"LayoutLMv3", {224, 224}},
    {"Donut", {2560, 1920}, Resample::kBilinear, kHalf, kHalf, false, Kind::kPage},
    {"Nougat",
     {896, 672},
     Resample::kBilinear,
     kImagenetMean,
     kImagenetStd,
     false,
     Kind::kPageWithMargin},
    {"Pix2Struct", {16, 16}, Resample::kBilinear, kHalf, kHalf, false, Kind::kGrid}};
constexpr int kDefaultCrop = 224;

const Defaults& defaults_of(const ConfigReader& in) {
  const char* key =
      in.find("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
  if (in.find(key) == nullptr) return kClasses[0];
  const std::string name = in.string(key);
  std::string known;
  for (const Defaults& c : kClasses) {
    if (name.starts_with(c.name)) return c;
    known += (known.empty() ? "" : ", ") + std::string(c.name) + "ImageProcessor";
  }
  in.fail(key, "is " + in.show(name) + ", expected one of: " + known);
}

// {"height": h, "width": w}, a list of both, or a number for both.
Size read_size(const ConfigReader& in, const char* key, Size otherwise, bool width_first = false) {
  const json* value = in.find(key);
  if (value == nullptr) return otherwise;
  if (value->is_array()) {
    const auto valid = [](const json& n) {
      return n.is_number_integer() && n >= 1 && n <= ImageProcessor::kMaxSide;
    };
    if (value->size() != 2 || !valid((*value)[0]) || !valid((*value)[1]))
      in.fail(key, "is " + in.show(*value) + ", expected two numbers up to " +
                       std::to_string(ImageProcessor::kMaxSide));
    const int first = (*value)[0].get<int>(), second = (*value)[1].get<int>();
    return width_first ? Size{second, first} : Size{first, second};
  }
  if (!value->is_object()) {
    const int side = in.size(key, ImageProcessor::kMaxSide).value_or(otherwise.height);
    return {side, side};
  }
  const ConfigReader size(in.file() + ": " + key, *value);
  const auto height = size.size("height", ImageProcessor::kMaxSide);
  const auto width = size.size("width", ImageProcessor::kMaxSide);
  if (!height || !width || value->size() != 2)
    in.fail(key, "is " + in.show(*value) + ", expected height and width");
  return {*height, *width};
}

// A number for each channel, or one for all.
Channels read_channels(const ConfigReader& in, const char* key, const Channels& otherwise,
                       bool positive) {
  const json* value = in.find(key);
  if (value == nullptr) return otherwise;
  Channels out{};
  const bool list = value->is_array() && value->size() == out.size();
  for (size_t c = 0; c < out.size(); ++c) {
    const json& number = list ? (*value)[c] : *value;
    out[c] = number.is_number() ? number.get<float>() : std::nanf("");
    if (!std::isfinite(out[c]) || (positive && out[c] <= 0))
      in.fail(key, "is " + in.show(*value) + ", expected three " +
                       (positive ? "numbers above 0" : "numbers"));
  }
  return out;
}

Resample read_filter(const ConfigReader& in, Resample otherwise) {
  const json* filter = in.find("resample");
  const int last = static_cast<int>(Resample::kHamming);
  if (filter != nullptr && (!filter->is_number_integer() || *filter < 0 || *filter > last))
    in.fail("resample", "is " + in.show(*filter) + ", expected 0 to " + std::to_string(last));
  return filter ? static_cast<Resample>(filter->get<int>()) : otherwise;
}

PageSteps read_page(const ConfigReader& in, const Defaults& defaults) {
  const bool with_margin = defaults.kind == Kind::kPageWithMargin;
  const Size size = read_size(in, "size", defaults.size, /*width_first=*/!with_margin);
  PageSteps out{size.height, size.width};
  out.crop_margin = with_margin && in.flag("do_crop_margin", true);
  out.align_long_axis = in.flag("do_align_long_axis", false);
  out.resize = in.flag("do_resize", true);
  out.thumbnail = in.flag("do_thumbnail", true);
  out.pad = in.flag("do_pad", true);
  out.filter = read_filter(in, defaults.resample);
  if (with_margin) out.thumbnail_filter = Resample::kBicubic;
  return out;
}

PatchGridSteps read_grid(const ConfigReader& in, const Defaults& defaults) {
  constexpr int kMostPatches = 1 << 16;
  if (in.flag("is_vqa", false))
    in.fail("is_vqa", "is true: a question drawn into the image is not supported");
  PatchGridSteps out;
  const Size patch = read_size(in, "patch_size", defaults.size);
  out.patch_height = patch.height;
  out.patch_width = patch.width;
  out.max_patches = size_or(in, "max_patches", kMostPatches, 2048);
  out.normalize = in.flag("do_normalize", true);
  // Also of an image so narrow that its only row or column of patches is long.
  if (out.max_patches * out.patch_values() > kMaxImagePixels)
    in.fail("max_patches",
            "makes images of more than " + std::to_string(kMaxImagePixels) + " numbers");
  return out;
}

}  // namespace

ImageProcessor::ImageProcessor(const ConfigReader& in) {
  const Defaults& defaults = defaults_of(in);
  if (defaults.kind == Kind::kGrid) {
    grid_ = read_grid(in, defaults);
    return;
  }
  if (defaults.kind != Kind::kPlain) {
    page_ = read_page(in, defaults);
    size_ = Size{page_->height, page_->width};
  } else if (in.flag("do_resize", true)) {
    size_ = read_size(in, "size", defaults.size);
    resample_ = read_filter(in, defaults.resample);
  }
  if (in.flag("do_center_crop", defaults.center_crop)) {
    crop_ = read_size(in, "crop_size", {kDefaultCrop, kDefaultCrop});
    if (!size_ || size_->height < crop_->height || size_->width < crop_->width)
      in.fail("crop_size", "is larger than size");
  }
  if (!page_ && in.flag("do_pad", false)) in.fail("do_pad", "is not supported");
  if (in.flag("do_pan_and_scan", false)) in.fail("do_pan_and_scan", "is not supported");
  if (in.flag("do_rescale", true)) {
    const json* factor = in.find("rescale_factor");
    in.positive("rescale_factor", 1.0f);  // checks it
    rescale_factor_ = factor ? factor->get<double>() : 1.0 / 255.0;
  }
  if (in.flag("do_normalize", true)) {
    mean_ = read_channels(in, "image_mean", defaults.mean, /*positive=*/false);
    std_ = read_channels(in, "image_std", defaults.std, /*positive=*/true);
  }
}

std::optional<ImageProcessor> ImageProcessor::load(const fs::path& directory) {
  std::error_code error;
  const auto there = [&](const char* name) {
    return fs::symlink_status(directory / name, error).type() != fs::file_type::not_found;
  };
  if (const fs::path file = directory / "processor_config.json"; there("processor_config.json")) {
    const json whole = load_python_json(file);
    const ConfigReader in(file.string(), whole);
    if (const json* part = in.find("image_processor"))
      return ImageProcessor(ConfigReader(in.file() + ": image_processor", *part));
  }
  if (!there("preprocessor_config.json")) return std::nullopt;
  const fs::path file = directory / "preprocessor_config.json";
  const json whole = load_python_json(file);
  return ImageProcessor(ConfigReader(file.string(), whole));
}

std::optional<Size> ImageProcessor::size() const { return crop_ ? crop_ : size_; }

void ImageProcessor::check_for(const FrameLimits& limits, int encoder_positions,
                               const std::string& file) const {
  if (limits.grid.has_value() != grid_.has_value())
    throw invalid_model(file, "is not of the processor that the model has");
  if (grid_) {
    if (grid_->patch_values() != limits.grid->patch_values)
      throw invalid_model(
          file, "patch_size makes patches of " + std::to_string(grid_->patch_values()) +
                    " numbers, the model reads " + std::to_string(limits.grid->patch_values));
    if (grid_->max_patches > encoder_positions)
      throw invalid_model(file, "max_patches is " + std::to_string(grid_->max_patches) +
                                    ", the model has rows and columns up to " +
                                    std::to_string(encoder_positions));
    return;
  }
  if (!size()) return;
  const auto [height, width] = *size();
  if (height != limits.image->height || width != limits.image->width)
    throw invalid_model(file, "makes images of " + std::to_string(width) + " x " +
                                  std::to_string(height) + " pixels, the model reads " +
                                  std::to_string(limits.image->width) + " x " +
                                  std::to_string(limits.image->height));
}

Image ImageProcessor::cropped(const Image& image) const {
  Image out;
  out.width = crop_->width;
  out.height = crop_->height;
  const int top = (image.height - out.height) / 2, left = (image.width - out.width) / 2;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* from = image.row(top + y) + 3 * left;
    out.rgb.insert(out.rgb.end(), from, from + 3 * out.width);
  }
  return out;
}

std::vector<float> ImageProcessor::pixel_values(const Image& image,
                                                const std::string& field) const {
  Image sized = page_   ? fit_page(image, *page_, field)
                : size_ ? resize(image, size_->width, size_->height, resample_)
                        : image;
  if (crop_) sized = cropped(sized);
  const size_t pixels = sized.rgb.size() / 3;
  std::vector<float> out(3 * pixels);
  for (size_t c = 0; c < 3; ++c) {
    std::array<float, 256> table{};  // of a byte
    for (size_t v = 0; v < table.size(); ++v) {
      const auto scaled = static_cast<float>(static_cast<double>(v) * rescale_factor_);
      table[v] = (scaled - mean_[c]) / std_[c];
    }
    for (size_t i = 0; i < pixels; ++i) out[c * pixels + i] = table[sized.rgb[3 * i + c]];
  }
  return out;
}

proto::EncoderFrames ImageProcessor::frames(std::string_view bytes, const std::string& field,
                                            const FrameLimits& limits) const {
  if (limits.image) return frames(bytes, field, *limits.image);
  TANDEM_CHECK(limits.grid && grid_, "a processor of other images");
  const PatchRows patches = patch_grid_of(decode_image(bytes, field), *grid_);
  proto::EncoderFrames out;
  out.set_width(limits.width);
  out.set_num_frames(static_cast<int32_t>(patches.count));
  out.mutable_values()->Add(patches.values.begin(), patches.values.end());
  return out;
}

proto::EncoderFrames ImageProcessor::frames(std::string_view bytes, const std::string& field,
                                            const ImagePatches& p) const {
  const Image image = decode_image(bytes, field);
  if (!size() && (image.height != p.height || image.width != p.width))
    throw invalid_request(field, "has " + std::to_string(image.width) + " x " +
                                     std::to_string(image.height) + " pixels; the model reads " +
                                     std::to_string(p.width) + " x " + std::to_string(p.height) +
                                     " and does not resize");
  const std::vector<float> values = pixel_values(image, field);
  proto::EncoderFrames out;
  out.set_width(p.frame_width());
  out.set_num_frames(static_cast<int32_t>(p.count()));
  auto& to = *out.mutable_values();
  to.Reserve(out.width() * out.num_frames());
  for (int row = 0; row < p.rows(); ++row)
    for (int column = 0; column < p.columns(); ++column)
      for (int c = 0; c < ImagePatches::kChannels; ++c)
        for (int y = row * p.patch_height; y < (row + 1) * p.patch_height; ++y) {
          const int x = column * p.patch_width;
          const int there = y < p.height ? std::min(p.patch_width, p.width - x) : 0;
          const auto line = static_cast<size_t>(c * p.height + y);
          const float* from =
              values.data() + line * static_cast<size_t>(p.width) + static_cast<size_t>(x);
          if (there > 0) to.Add(from, from + there);
          for (int i = there; i < p.patch_width; ++i) to.Add(0.0f);
        }
  return out;
}

}  // namespace tandem
