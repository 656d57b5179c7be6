#include "runtime/media/image/image_processor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tests/support/files/files.h"
#include "tests/support/files/images.h"

namespace tandem {
namespace {

using nlohmann::json;

ImageProcessor processor(const json& config) {
  return ImageProcessor(ConfigReader("file", config));
}

Image filled(int width, int height) {
  Image out;
  out.width = width;
  out.height = height;
  for (int i = 0; i < 3 * width * height; ++i) out.rgb.push_back(static_cast<uint8_t>(i * 7));
  return out;
}

TEST(ImageProcessor, Numbers) {
  const json config = {{"do_resize", false},
                       {"image_mean", {0.5, 0.25, 0.0}},
                       {"image_std", {0.5, 2.0, 1.0}},
                       {"rescale_factor", 0.01}};
  Image image = filled(2, 1);
  image.rgb = {100, 50, 200, 0, 255, 1};
  const std::vector<float> want = {(1.0f - 0.5f) / 0.5f,
                                   (0.0f - 0.5f) / 0.5f,
                                   (0.5f - 0.25f) / 2.0f,
                                   (2.55f - 0.25f) / 2.0f,
                                   2.0f,
                                   0.01f};
  EXPECT_EQ(processor(config).pixel_values(image), want);
  EXPECT_EQ(processor({{"do_resize", false}, {"do_rescale", false}, {"do_normalize", false}})
                .pixel_values(image),
            (std::vector<float>{100, 0, 50, 255, 200, 1}));
}

TEST(ImageProcessor, SizesAndDefaults) {
  const auto size_of = [](const json& config) {
    const auto size = processor(config).size();
    return size ? std::pair(size->height, size->width) : std::pair(0, 0);
  };
  EXPECT_EQ(size_of(json::object()), std::pair(224, 224));
  EXPECT_EQ(size_of({{"size", 384}}), std::pair(384, 384));
  EXPECT_EQ(size_of({{"size", {{"height", 3}, {"width", 5}}}}), std::pair(3, 5));
  EXPECT_EQ(size_of({{"do_resize", false}}), std::pair(0, 0));
  EXPECT_EQ(size_of({{"feature_extractor_type", "DeiTFeatureExtractor"}}), std::pair(224, 224));
  EXPECT_EQ(size_of({{"size", 30}, {"do_center_crop", true}, {"crop_size", 20}}),
            std::pair(20, 20));
}

TEST(ImageProcessor, TheMiddleIsCut) {
  const json config = {{"size", {{"height", 5}, {"width", 6}}},
                       {"do_center_crop", true},
                       {"crop_size", {{"height", 2}, {"width", 3}}},
                       {"do_rescale", false},
                       {"do_normalize", false}};
  const Image image = filled(6, 5);
  const auto values = processor(config).pixel_values(image);
  for (int c = 0; c < 3; ++c)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 3; ++x)
        EXPECT_EQ(values[static_cast<size_t>((c * 2 + y) * 3 + x)],
                  image.row(1 + y)[3 * (1 + x) + c]);
}

TEST(ImageProcessor, Patches) {
  const json config = {{"do_resize", false}, {"do_rescale", false}, {"do_normalize", false}};
  ImagePatches patches;
  patches.height = 23;
  patches.width = 37;
  patches.patch_height = 5;
  patches.patch_width = 8;
  const std::string bytes = testing::image_bytes("rgb8.png");
  const Image image = decode_image(bytes, "image");
  const auto frames = processor(config).frames(bytes, "image", patches);
  ASSERT_EQ(frames.num_frames(), 4 * 4);
  ASSERT_EQ(frames.width(), 3 * 5 * 8);
  ASSERT_EQ(frames.values_size(), 16 * 120);
  int at = 0;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column)
      for (int c = 0; c < 3; ++c)
        for (int y = 0; y < 5; ++y)
          for (int x = 0; x < 8; ++x)
            ASSERT_EQ(frames.values(at++), image.row(5 * row + y)[3 * (8 * column + x) + c]);
  patches.width = 40;
  EXPECT_THROW(processor(config).frames(bytes, "image", patches), InputError);
}

TEST(ImageProcessor, WrongFilesAreNamed) {
  const auto expect = [](const char* key, const json& config) {
    try {
      processor(config);
      ADD_FAILURE() << config;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), key) << error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    }
  };
  expect("size", {{"size", 5000}});
  expect("size", {{"size", "large"}});
  expect("size", {{"size", {{"shortest_edge", 224}}}});
  expect("size", {{"size", {{"height", 3}}}});
  expect("resample", {{"resample", 6}});
  expect("resample", {{"resample", -1}});
  expect("resample", {{"resample", "bilinear"}});
  expect("crop_size", {{"do_center_crop", true}, {"size", 20}, {"crop_size", 21}});
  expect("image_mean", {{"image_mean", {1, 2}}});
  expect("image_std", {{"image_std", {1, 0, 1}}});
  expect("rescale_factor", {{"rescale_factor", 0}});
  expect("image_processor_type", {{"image_processor_type", "SamImageProcessor"}});
  expect("do_pad", {{"do_pad", true}});
}

TEST(ImageProcessor, FilesOfACheckpoint) {
  const test::TempDir dir;
  EXPECT_FALSE(ImageProcessor::load(dir.path()).has_value());
  dir.write("preprocessor_config.json", R"({"size": 32})");
  EXPECT_EQ(ImageProcessor::load(dir.path())->size()->width, 32);
  dir.write("processor_config.json", R"({"processor_class": "TrOCRProcessor"})");
  EXPECT_EQ(ImageProcessor::load(dir.path())->size()->width, 32);
  dir.write("processor_config.json", R"({"image_processor": {"size": 48}})");
  EXPECT_EQ(ImageProcessor::load(dir.path())->size()->width, 48);
  dir.write("processor_config.json", "{");
  EXPECT_THROW(ImageProcessor::load(dir.path()), InputError);
}

}  // namespace
}  // namespace tandem
