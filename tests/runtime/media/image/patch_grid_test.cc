#include "runtime/media/image/patch_grid.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tandem {
namespace {

Image blocks(int width, int height) {
  Image out;
  out.width = width;
  out.height = height;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        out.rgb.push_back(static_cast<uint8_t>(x / 24 * 131 + y / 24 * 241 + c * 67));
  return out;
}

struct Value {
  int64_t patch, column;
  float value;
};

void expect_patches(int width, int height, int64_t count, const std::vector<Value>& values) {
  const PatchRows got = patch_grid_of(blocks(width, height), {});
  ASSERT_EQ(got.count, count);
  constexpr int64_t kColumns = 2 + 3 * 16 * 16;
  ASSERT_EQ(std::ssize(got.values), count * kColumns);
  for (const Value& v : values)
    EXPECT_NEAR(got.values[static_cast<size_t>(v.patch * kColumns + v.column)], v.value, 3e-6f)
        << width << " x " << height << ", patch " << v.patch << ", column " << v.column;
}

// What Pix2StructImageProcessorPil of transformers 5.24 makes, where it is farthest from what exact
// arithmetic makes: up to 1.5e-4.
TEST(PatchGrid, LargePicturesAsHuggingFaceRounds) {
  expect_patches(1001, 640, 2016,
                 {{1893, 592, 1.40669048f}, {1896, 611, 1.44726539f}, {1895, 580, 1.48784029f}});
  expect_patches(640, 1800, 1950,
                 {{363, 17, -0.90234590f}, {1039, 19, -0.90234590f}, {363, 593, -0.92488146f}});
  expect_patches(1234, 77, 1991,
                 {{1989, 266, 0.57547116f}, {1989, 170, 0.75168151f}, {1808, 74, 0.75797474f}});
}

}  // namespace
}  // namespace tandem
