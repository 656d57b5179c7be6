#include "runtime/media/image/image_resize.h"

#include <gtest/gtest.h>

#include "tests/support/files/images.h"

namespace tandem {
namespace {

TEST(ImageResize, EveryFilterAsPillow) {
  int count = 0;
  const nlohmann::json expected = testing::expected_images();
  for (const auto& [name, want] : expected.items()) {
    if (!want.contains("resized")) continue;
    const Image image = decode_image(testing::image_bytes(name), "image");
    for (const auto& one : want["resized"]) {
      SCOPED_TRACE(name + " " + one.dump());
      const int width = one["width"], height = one["height"];
      const Image got =
          resize(image, width, height, static_cast<Resample>(one["filter"].get<int>()));
      EXPECT_EQ(got.width, width);
      EXPECT_EQ(got.height, height);
      EXPECT_EQ(testing::crc_of(got), one["crc"]);
      ++count;
    }
  }
  EXPECT_EQ(count, 108);
}

TEST(ImageResize, LongLines) {
  Image line;
  line.width = 65500;
  line.height = 1;
  line.rgb.assign(size_t{3} * 65500, 77);
  for (int filter = 0; filter < 6; ++filter) {
    const Image got = resize(line, 3, 2, static_cast<Resample>(filter));
    EXPECT_EQ(got.rgb, std::vector<uint8_t>(18, 77)) << filter;
  }
}

}  // namespace
}  // namespace tandem
