#include "runtime/media/image/page_image.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

std::string shape_of(int width, int height) {
  return std::to_string(width) + " x " + std::to_string(height) + " pixels";
}

// Pillow's convert("L").
uint8_t grey_of(const uint8_t* pixel) {
  return static_cast<uint8_t>(
      (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

// The smallest rectangle with all pixels that are dark, as the grey values are spread over 0..255.
Image without_margin(const Image& page) {
  constexpr double kLight = 200.0;
  std::vector<uint8_t> grey;
  for (size_t i = 0; i < page.rgb.size(); i += 3) grey.push_back(grey_of(page.rgb.data() + i));
  const auto [least, most] = std::minmax_element(grey.begin(), grey.end());
  if (*least == *most) return page;
  const double from = *least, spread = *most - *least;
  int left = page.width, right = 0, top = page.height, bottom = 0;
  const uint8_t* at = grey.data();
  for (int y = 0; y < page.height; ++y)
    for (int x = 0; x < page.width; ++x, ++at) {
      if ((*at - from) / spread * 255.0 >= kLight) continue;
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = y + 1;
    }
  Image out = Image::black(right - left, bottom - top);
  for (int y = 0; y < out.height; ++y)
    std::memcpy(out.row(y), page.row(top + y) + 3 * left,
                size_t{3} * static_cast<size_t>(out.width));
  return out;
}

// Clockwise.
Image turned(const Image& page) {
  Image out = Image::black(page.height, page.width);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      std::memcpy(out.row(y) + 3 * x, page.row(out.width - 1 - x) + 3 * y, 3);
  return out;
}

// In HuggingFace's arithmetic: `side` times a / b.
int scaled_side(int side, int a, int b) {
  return static_cast<int>(static_cast<double>(int64_t{side} * a) / b);
}

Image with_shorter_side(const Image& page, int side, Resample filter, const std::string& field) {
  const bool upright = page.width <= page.height;
  const int shorter = std::min(page.width, page.height), longer = std::max(page.width, page.height);
  if (int64_t{side} * side / shorter * longer > kMaxImagePixels)
    throw invalid_request(
        field, "has " + shape_of(page.width, page.height) + ", too narrow to be read as a page");
  const int other = scaled_side(side, longer, shorter);
  return resize(page, upright ? side : other, upright ? other : side, filter);
}

Image thumbnail_of(const Image& page, const PageSteps& steps) {
  int height = std::min(page.height, steps.height), width = std::min(page.width, steps.width);
  if (height == page.height && width == page.width) return page;
  if (page.height > page.width)
    width = scaled_side(page.width, height, page.height);
  else if (page.width > page.height)
    height = scaled_side(page.height, width, page.width);
  width = std::max(width, 1);
  height = std::max(height, 1);
  constexpr double kGap = 2.0;
  if (steps.thumbnail_filter)
    return resize_by_means(page, width, height, *steps.thumbnail_filter, kGap);
  return resize(page, width, height, steps.filter);
}

Image padded(const Image& page, const PageSteps& steps) {
  Image out = Image::black(steps.width, steps.height);
  const int left = (out.width - page.width) / 2, top = (out.height - page.height) / 2;
  for (int y = 0; y < page.height; ++y)
    std::memcpy(out.row(top + y) + 3 * left, page.row(y),
                size_t{3} * static_cast<size_t>(page.width));
  return out;
}

}  // namespace

Image fit_page(const Image& page, const PageSteps& steps, const std::string& field) {
  Image out = steps.crop_margin ? without_margin(page) : page;
  const bool lies = out.width > out.height, stands = out.width < out.height;
  if (steps.align_long_axis &&
      ((steps.width < steps.height && lies) || (steps.width > steps.height && stands)))
    out = turned(out);
  if (steps.resize)
    out = with_shorter_side(out, std::min(steps.height, steps.width), steps.filter, field);
  if (steps.thumbnail) out = thumbnail_of(out, steps);
  const bool same = out.width == steps.width && out.height == steps.height;
  const bool fits = out.width <= steps.width && out.height <= steps.height;
  if (!same && !(steps.pad && fits))
    throw invalid_request(field, "becomes " + shape_of(out.width, out.height) +
                                     "; the model reads pages of " +
                                     shape_of(steps.width, steps.height));
  return same ? out : padded(out, steps);
}

}  // namespace tandem
