// Images by the program that reads them. (tests/runtime/media/decoder/image compares with Pillow.)
#include "runtime/media/image/image_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/files/files.h"
#include "tests/support/files/images.h"

namespace tandem::image_file_test {
namespace {

using testing::crc_of;
using testing::image_bytes;

std::string error_of(const std::string& bytes) {
  try {
    decode_image(bytes, "the.field");
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "the.field");
    return error.what();
  }
  return "none";
}

TEST(ImageFile, PixelsComeWhole) {
  const nlohmann::json expected = testing::expected_images();
  for (const char* name :
       {"rgb8.png", "rgb.jpg", "lossless.webp", "moving.gif", "rle8.bmp", "rgb_lzw.tif"}) {
    SCOPED_TRACE(name);
    const Image image = decode_image(image_bytes(name), "image");
    EXPECT_EQ(image.width, expected[name]["width"]);
    EXPECT_EQ(image.height, expected[name]["height"]);
    EXPECT_EQ(crc_of(image), expected[name]["crc"]);
  }
}

TEST(ImageFile, WhatIsNone) {
  EXPECT_NE(error_of("").find("is empty"), std::string::npos);
  EXPECT_EQ(error_of("hello").find("the.field: is no image"), 0U) << error_of("hello");
  EXPECT_NE(error_of(std::string(kMaxImageBytes + 1, 'x')).find("bytes, at most"),
            std::string::npos);
  const std::string cut = image_bytes("rgb.jpg").substr(0, 700);
  EXPECT_NE(error_of(cut).find("broken JPEG"), std::string::npos) << error_of(cut);
}

TEST(ImageFile, FilesAreNoLargerThanTheBound) {
  const test::TempDir dir;
  try {
    read_image_file(dir.write("large.png", std::string(kMaxImageBytes + 1, 'x')).string(), "field");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "field");
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
  }
  EXPECT_EQ(read_image_file(dir.write("small.png", "bytes").string(), "x"), "bytes");
}

}  // namespace
}  // namespace tandem::image_file_test
