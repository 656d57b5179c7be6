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

  // `from` pixels, of which the first `extent` become `to`.
  Weights(int from, double extent, int to, Resample filter) {
    const double scale = extent / to, wide = std::max(scale, 1.0);
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

Image along_rows(const Image& image, double extent, int width, Resample filter) {
  const Weights weights(image.width, extent, width, filter);
  Image out = Image::black(width, image.height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < width; ++x)
      blend(image.row(y) + 3 * weights[x].begin, 3, weights[x], out.row(y) + 3 * x);
  return out;
}

Image along_columns(const Image& image, double extent, int height, Resample filter) {
  const Weights weights(image.height, extent, height, filter);
  const size_t stride = size_t{3} * static_cast<size_t>(image.width);
  Image out = Image::black(image.width, height);
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
  Image out = Image::black(width, height);
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

// Of the upper left part of the image, x_extent pixels wide and y_extent high.
Image resize_part(const Image& image, double x_extent, double y_extent, int width, int height,
                  Resample filter) {
  const bool same_width = x_extent == width && image.width == width,
             same_height = y_extent == height && image.height == height;
  if (same_width && same_height) return image;
  if (same_width) return along_columns(image, y_extent, height, filter);
  if (same_height) return along_rows(image, x_extent, width, filter);
  if (columns_first(image, width, height))
    return along_rows(along_columns(image, y_extent, height, filter), x_extent, width, filter);
  return along_columns(along_rows(image, x_extent, width, filter), y_extent, height, filter);
}

// Pillow's division (src/libImaging/Reduce.c): sums times this, less 24 bits.
uint32_t reciprocal_of(uint32_t count) {
  return static_cast<uint32_t>(4294967296.0f / static_cast<float>(count << 8));
}

// A pixel of `out` is the mean of a block of x_factor times y_factor pixels, or of what is left.
Image reduced(const Image& image, int x_factor, int y_factor) {
  Image out = Image::black((image.width - 1) / x_factor + 1, (image.height - 1) / y_factor + 1);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      const int x_end = std::min(image.width, (x + 1) * x_factor),
                y_end = std::min(image.height, (y + 1) * y_factor);
      const auto count = static_cast<uint32_t>((x_end - x * x_factor) * (y_end - y * y_factor));
      const uint32_t reciprocal = reciprocal_of(count);
      for (int c = 0; c < 3; ++c) {
        uint32_t sum = count / 2;
        for (int from_y = y * y_factor; from_y < y_end; ++from_y)
          for (int from_x = x * x_factor; from_x < x_end; ++from_x)
            sum += image.row(from_y)[3 * from_x + c];
        out.row(y)[3 * x + c] = static_cast<uint8_t>((sum * reciprocal) >> 24);
      }
    }
  return out;
}

}  // namespace

Image resize(const Image& image, int width, int height, Resample filter) {
  TANDEM_CHECK(width > 0 && height > 0);
  if (image.width == width && image.height == height) return image;
  if (filter == Resample::kNearest) return resize_nearest(image, width, height);
  return resize_part(image, image.width, image.height, width, height, filter);
}

Image resize_by_means(const Image& image, int width, int height, Resample filter, double gap) {
  const auto factor = [&](int from, int to) {
    return std::max(1, static_cast<int>(static_cast<double>(from) / to / gap));
  };
  const int x = factor(image.width, width), y = factor(image.height, height);
  if (filter == Resample::kNearest || (x == 1 && y == 1))
    return resize(image, width, height, filter);
  // (In Pillow these are floats.)
  return resize_part(reduced(image, x, y), static_cast<float>(static_cast<double>(image.width) / x),
                     static_cast<float>(static_cast<double>(image.height) / y), width, height,
                     filter);
}

}  // namespace tandem
