#include "models/config/vision_config.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/json.h"

namespace tandem {
namespace {

using nlohmann::json;

// A number for both sides of a rectangle, or [height, width].
std::pair<int, int> read_rectangle(const ConfigReader& in, const char* key, int otherwise) {
  constexpr int kMost = VisionConfig::kMaxImageSide;
  const json* value = in.find(key);
  if (value == nullptr || !value->is_array()) {
    const int side = size_or(in, key, kMost, otherwise);
    return {side, side};
  }
  const auto valid = [](const json& n) { return n.is_number_integer() && n >= 1 && n <= kMost; };
  if (value->size() != 2 || !valid((*value)[0]) || !valid((*value)[1]))
    in.fail(key, "is " + in.show(*value) + ", expected a size or two");
  return {(*value)[0].get<int>(), (*value)[1].get<int>()};
}

}  // namespace

ImagePatches read_patches(const ConfigReader& in, int image_size, int patch_size) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  if (size_or(in, "num_channels", kCount, 3) != ImagePatches::kChannels)
    in.fail("num_channels", "is not 3, which is all that is read");
  ImagePatches p;
  std::tie(p.height, p.width) = read_rectangle(in, "image_size", image_size);
  std::tie(p.patch_height, p.patch_width) = read_rectangle(in, "patch_size", patch_size);
  if (p.count() < 1) in.fail("patch_size", "is larger than image_size");
  if (p.frame_width() > kWidth) in.fail("patch_size", "is too large");
  return p;
}

VisionConfig read_vision(const ConfigReader& in, const VisionDefaults& defaults) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  VisionConfig out;
  out.d_model = size_or(in, "hidden_size", kWidth, 768);
  out.layers = size_or(in, "num_hidden_layers", kCount, 12);
  out.heads = size_or(in, "num_attention_heads", kCount, 12);
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 3072);
  if (out.d_model % out.heads != 0)
    in.fail("num_attention_heads", "is " + std::to_string(out.heads) +
                                       ", which does not divide hidden_size (" +
                                       std::to_string(out.d_model) + ")");
  out.activation = in.activation("hidden_act", "gelu");
  out.qkv_bias = in.flag("qkv_bias", true);
  out.eps = in.positive("layer_norm_eps", defaults.eps);
  out.patches = read_patches(in, defaults.image_size, 16);
  return out;
}

ImageSize processed_size(const ModelConfig& config, ImageSize otherwise) {
  for (const char* name : {"processor_config.json", "preprocessor_config.json"}) {
    const std::filesystem::path file = config.directory / name;
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const json whole = load_python_json(file);
    const ConfigReader in(file.string(), whole);
    const json* part = in.find("image_processor");
    if (part == nullptr && name == std::string_view("processor_config.json")) continue;
    const ConfigReader of_images(file.string(), part != nullptr ? *part : whole);
    const bool crops = of_images.flag("do_center_crop", false);
    const json* size = of_images.find(crops ? "crop_size" : "size");
    if (size == nullptr || !size->is_object()) return otherwise;
    const ConfigReader sides(file.string() + ": size", *size);
    return {sides.size("height", VisionConfig::kMaxImageSide).value_or(otherwise.height),
            sides.size("width", VisionConfig::kMaxImageSide).value_or(otherwise.width)};
  }
  return otherwise;
}

}  // namespace tandem
