#include "runtime/media/image/page_image.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

using Pixel = std::vector<uint8_t>;
const Pixel kBlack{0, 0, 0};

Image numbered(int width, int height) {
  Image out;
  out.width = width;
  out.height = height;
  for (int i = 0; i < 3 * width * height; ++i) out.rgb.push_back(static_cast<uint8_t>(i * 7 + 40));
  return out;
}

Image plain(int width, int height, uint8_t grey) {
  Image out = numbered(width, height);
  std::fill(out.rgb.begin(), out.rgb.end(), grey);
  return out;
}

void paint(Image& image, int x, int y, uint8_t grey) { std::fill_n(image.row(y) + 3 * x, 3, grey); }

Pixel pixel(const Image& image, int x, int y) {
  const uint8_t* at = image.row(y) + 3 * x;
  return {at, at + 3};
}

PageSteps only(int height, int width) {
  PageSteps out{height, width};
  out.resize = out.thumbnail = out.pad = false;
  return out;
}

std::string refused_page(const Image& page, const PageSteps& steps) {
  try {
    fit_page(page, steps, "image");
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "image");
    return error.what();
  }
  return "";
}

TEST(PageImage, IsPutInTheMiddle) {
  PageSteps steps = only(6, 9);
  steps.pad = true;
  const Image page = numbered(4, 3), out = fit_page(page, steps, "image");
  ASSERT_EQ(out.width, 9);
  ASSERT_EQ(out.height, 6);
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 9; ++x) {
      const bool there = y >= 1 && y < 4 && x >= 2 && x < 6;  // what is odd is below and right
      EXPECT_EQ(pixel(out, x, y), there ? pixel(page, x - 2, y - 1) : kBlack) << x << " " << y;
    }
}

// The shorter side becomes 8, then what is too long shrinks: int(8 * 12 / 15) = 6 columns.
TEST(PageImage, KeepsItsShape) {
  PageSteps steps{12, 8};
  const Image out = fit_page(plain(13, 25, 200), steps, "image");
  ASSERT_EQ(out.width, 8);
  ASSERT_EQ(out.height, 12);
  for (int x = 0; x < 8; ++x)
    EXPECT_EQ(pixel(out, x, 6), x >= 1 && x < 7 ? Pixel(3, 200) : kBlack) << x;
  EXPECT_EQ(pixel(out, 3, 0), Pixel(3, 200));
  EXPECT_EQ(pixel(out, 3, 11), Pixel(3, 200));
  const Image wide = fit_page(plain(40, 10, 200), steps, "image");
  EXPECT_EQ(pixel(wide, 0, 5), Pixel(3, 200));
  EXPECT_EQ(pixel(wide, 0, 4), kBlack);  // int(8 * 8 / 32) = 2 rows
  EXPECT_EQ(pixel(wide, 0, 7), kBlack);
}

TEST(PageImage, MarginsGo) {
  Image page = plain(9, 7, 255);
  paint(page, 3, 2, 0);
  paint(page, 6, 4, 190);
  paint(page, 1, 1, 205);  // light enough to be margin
  PageSteps steps = only(3, 4);
  steps.crop_margin = true;
  const Image out = fit_page(page, steps, "image");
  EXPECT_EQ(pixel(out, 0, 0), Pixel(3, 0));
  EXPECT_EQ(pixel(out, 3, 2), Pixel(3, 190));
  EXPECT_EQ(pixel(out, 1, 1), Pixel(3, 255));
  // Of one colour only: nothing is margin.
  steps = only(7, 9);
  steps.crop_margin = true;
  EXPECT_EQ(fit_page(plain(9, 7, 30), steps, "image").rgb, plain(9, 7, 30).rgb);
}

TEST(PageImage, LongSidesAreAligned) {
  PageSteps steps = only(5, 3);
  steps.align_long_axis = true;
  const Image page = numbered(5, 3), out = fit_page(page, steps, "image");
  EXPECT_EQ(pixel(out, 2, 0), pixel(page, 0, 0));
  EXPECT_EQ(pixel(out, 0, 0), pixel(page, 0, 2));
  EXPECT_EQ(pixel(out, 0, 4), pixel(page, 4, 2));
  EXPECT_EQ(fit_page(numbered(3, 5), steps, "image").rgb, numbered(3, 5).rgb);
}

TEST(PageImage, WhatDoesNotFitIsRefused) {
  PageSteps steps = only(6, 9);
  EXPECT_NE(refused_page(numbered(4, 3), steps).find("becomes 4 x 3 pixels"), std::string::npos);
  steps.pad = true;
  EXPECT_NE(refused_page(numbered(10, 3), steps).find("becomes 10 x 3 pixels"), std::string::npos);
  EXPECT_NE(refused_page(numbered(1, 60000), {2560, 1920}).find("too narrow"), std::string::npos);
}

// Pillow: Image.resize(size, box filter, reducing_gap=2) of rows of 0, 10, 20, …: blocks of three
// become their rounded means first, then two of these one.
TEST(PageImage, ShrinksByMeansFirst) {
  Image page = plain(12, 1, 0);
  for (int x = 0; x < 12; ++x) paint(page, x, 0, static_cast<uint8_t>(10 * x));
  const Image out = resize_by_means(page, 2, 1, Resample::kBox, 2.0);
  EXPECT_EQ(pixel(out, 0, 0), Pixel(3, 25));
  EXPECT_EQ(pixel(out, 1, 0), Pixel(3, 85));
  // By less than twice the gap nothing comes first.
  EXPECT_EQ(resize_by_means(page, 4, 1, Resample::kBilinear, 2.0).rgb,
            resize(page, 4, 1, Resample::kBilinear).rgb);
}

}  // namespace
}  // namespace tandem
