// Pillow's resampling (src/libImaging/Resample.c): along rows and along columns, each with 8-bit
// results and weights in 22 bits behind the point. A filter is as wide as the pixels that it makes
// one of, so nothing is skipped where an image shrinks.
#include "runtime/media/image/image_resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double hamming(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

double support_of(Resample filter) {
  switch (filter) {
    case Resample::kBox: return 0.5;
    case Resample::kBilinear:
    case Resample::kHamming: return 1.0;
    case Resample::kBicubic: return 2.0;
    default: return 3.0;
  }
}

double weight_at(Resample filter, double x) {
  switch (filter) {
    case Resample::kBox: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Resample::kBilinear: return std::max(0.0, 1.0 - std::abs(x));
    case Resample::kHamming: return hamming(x);
    case Resample::kBicubic: return bicubic(x);
    default: return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
  }
}

// Of which pixels, with which weights, a pixel of the result consists.
class Weights {
 public:
  struct Span {
    int begin, count;
    const int32_t* weights;
  };

  Weights(int from, int to, Resample filter) {
    const double scale = static_cast<double>(from) / to, wide = std::max(scale, 1.0);
    const double support = support_of(filter) * wide;
    width_ = static_cast<size_t>(std::ceil(support)) * 2 + 1;
    weights_.resize(width_ * static_cast<size_t>(to));
    std::vector<double> exact(width_);
    for (int i = 0; i < to; ++i) {
      const double center = (i + 0.5) * scale;
      const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
      const int end = std::min(static_cast<int>(center + support + 0.5), from);
      const int count = end - begin;
      double sum = 0.0;
      for (int x = 0; x < count; ++x) {
        const double w = weight_at(filter, (x + begin - center + 0.5) * (1.0 / wide));
        exact[static_cast<size_t>(x)] = w;
        sum += w;
      }
      int32_t* to_weights = weights_.data() + width_ * static_cast<size_t>(i);
      for (int x = 0; x < count; ++x) {
        double w = exact[static_cast<size_t>(x)];
        if (sum != 0.0) w /= sum;
        to_weights[x] = static_cast<int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << kPrecisionBits));
      }
      begins_.push_back(begin);
      counts_.push_back(count);
    }
  }
  Span operator[](int i) const {
    const auto at = static_cast<size_t>(i);
    return {begins_[at], counts_[at], weights_.data() + width_ * at};
  }

 private:
  size_t width_;
  std::vector<int32_t> weights_;
  std::vector<int> begins_, counts_;
};

uint8_t clipped(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

// One pixel: the weighted sum of `count` pixels that are `stride` bytes apart.
void blend(const uint8_t* from, size_t stride, const Weights::Span& span, uint8_t* to) {
  int32_t r = 1 << (kPrecisionBits - 1), g = r, b = r;
  for (int i = 0; i < span.count; ++i, from += stride) {
    r += from[0] * span.weights[i];
    g += from[1] * span.weights[i];
    b += from[2] * span.weights[i];
  }
  to[0] = clipped(r), to[1] = clipped(g), to[2] = clipped(b);
}

Image of_size(int width, int height) {
  Image out;
  out.width = width;
  out.height = height;
  out.rgb.resize(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height));
  return out;
}

Image along_rows(const Image& image, int width, Resample filter) {
  const Weights weights(image.width, width, filter);
  Image out = of_size(width, image.height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < width; ++x)
      blend(image.row(y) + 3 * weights[x].begin, 3, weights[x], out.row(y) + 3 * x);
  return out;
}

Image along_columns(const Image& image, int height, Resample filter) {
  const Weights weights(image.height, height, filter);
  const size_t stride = size_t{3} * static_cast<size_t>(image.width);
  Image out = of_size(image.width, height);
  for (int y = 0; y < height; ++y) {
    const Weights::Span span = weights[y];
    for (int x = 0; x < image.width; ++x)
      blend(image.row(span.begin) + 3 * x, stride, span, out.row(y) + 3 * x);
  }
  return out;
}

std::vector<int> nearest(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  std::vector<int> out;
  double at = scale * 0.5;
  for (int i = 0; i < to; ++i, at += scale) out.push_back(std::min(static_cast<int>(at), from - 1));
  return out;
}

Image resize_nearest(const Image& image, int width, int height) {
  const std::vector<int> columns = nearest(image.width, width),
                         rows = nearest(image.height, height);
  Image out = of_size(width, height);
  for (int y = 0; y < height; ++y) {
    const uint8_t* from = image.row(rows[static_cast<size_t>(y)]);
    uint8_t* to = out.row(y);
    for (const int x : columns) to = std::copy(from + 3 * x, from + 3 * x + 3, to);
  }
  return out;
}

// Which is first shows in the last bit. As Pillow 13 has it; until 12.0 rows always were.
bool columns_first(const Image& image, int width, int height) {
  return height < image.height && image.height - height > 2 * (image.width - width);
}

}  // namespace

Image resize(const Image& image, int width, int height, Resample filter) {
  TANDEM_CHECK(width > 0 && height > 0);
  if (image.width == width && image.height == height) return image;
  if (filter == Resample::kNearest) return resize_nearest(image, width, height);
  if (image.width == width) return along_columns(image, height, filter);
  if (image.height == height) return along_rows(image, width, filter);
  if (columns_first(image, width, height))
    return along_rows(along_columns(image, height, filter), width, filter);
  return along_columns(along_rows(image, width, filter), height, filter);
}

}  // namespace tandem
