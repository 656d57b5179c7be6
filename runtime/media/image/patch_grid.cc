#include "runtime/media/image/patch_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem {
namespace {

struct GridShape {
  int rows, columns;
};

// In HuggingFace's order of operations.
GridShape grid_shape(const Image& image, const PatchGridSteps& s) {
  const auto most = static_cast<double>(s.max_patches);
  const double scale = std::pow(most * (static_cast<double>(s.patch_height) / image.height) *
                                    (static_cast<double>(s.patch_width) / image.width),
                                0.5);
  const auto feasible = [&](int side, int patch) {
    return static_cast<int>(std::clamp(std::trunc(scale * side / patch), 1.0, most));
  };
  return {feasible(image.height, s.patch_height), feasible(image.width, s.patch_width)};
}

struct Normalization {
  float mean = 0.0f, deviation = 1.0f;
};

Normalization normalization_of(const Image& image) {
  const auto count = static_cast<double>(image.rgb.size());
  double sum = 0, squares = 0;
  for (const uint8_t v : image.rgb) sum += v;
  const double mean = sum / count;
  for (const uint8_t v : image.rgb) squares += (v - mean) * (v - mean);
  const double least = 1.0 / std::sqrt(count);
  return {static_cast<float>(mean),
          static_cast<float>(std::max(std::sqrt(squares / count), least))};
}

// Of which pixels, with which weights, a pixel of the result consists: torch's antialiased bilinear
// filter, which is as wide as two pixels of the larger picture.
struct Span {
  int begin;
  std::vector<float> weights;
};

// torch computes the places of pixels in float32, and so their weights are wrong by up to 1e-4 in
// wide pictures. These are the same to the bit: what is double here is rounded where torch rounds,
// and a processor that multiplies and adds at once can't change it.
std::vector<Span> spans_of(int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to),
              support = std::max(scale, 1.0f), per_pixel = 1.0f / support;
  std::vector<Span> out;
  for (int i = 0; i < to; ++i) {
    const auto center = static_cast<float>(double{scale} * (i + 0.5));
    const int begin = std::max(static_cast<int>(double{center - support} + 0.5), 0),
              end = std::min(static_cast<int>(double{center + support} + 0.5), from);
    Span span{begin, {}};
    float sum = 0;
    for (int j = begin; j < end; ++j) {
      const double beside = double{static_cast<float>(j) - center} + 0.5;
      const auto distance = static_cast<float>(std::abs(beside * double{per_pixel}));
      span.weights.push_back(std::max(0.0f, 1.0f - distance));
      sum += span.weights.back();
    }
    for (float& w : span.weights) w = sum != 0 ? w / sum : w;
    out.push_back(std::move(span));
  }
  return out;
}

// [height, width, 3] of numbers.
struct Pixels {
  Pixels(int width, int height)
      : width(width),
        values(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height)) {}
  float* at(int y, int x) {
    return values.data() + size_t{3} * (static_cast<size_t>(y) * static_cast<size_t>(width) +
                                        static_cast<size_t>(x));
  }
  int width;
  std::vector<float> values;
};

Pixels resized(const Image& image, const Normalization& norm, int width, int height) {
  const std::vector<Span> columns = spans_of(image.width, width),
                          rows = spans_of(image.height, height);
  Pixels narrow(width, image.height), out(width, height);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < width; ++x) {
      const Span& span = columns[static_cast<size_t>(x)];
      const uint8_t* from = image.row(y) + 3 * span.begin;
      for (const float w : span.weights)
        for (int c = 0; c < 3; ++c)
          narrow.at(y, x)[c] += w * ((static_cast<float>(*from++) - norm.mean) / norm.deviation);
    }
  for (int y = 0; y < height; ++y) {
    const Span& span = rows[static_cast<size_t>(y)];
    for (size_t j = 0; j < span.weights.size(); ++j) {
      const float* from = narrow.at(span.begin + static_cast<int>(j), 0);
      float* to = out.at(y, 0);
      for (int i = 0; i < 3 * width; ++i) to[i] += span.weights[j] * from[i];
    }
  }
  return out;
}

}  // namespace

PatchRows patch_grid_of(const Image& image, const PatchGridSteps& s) {
  const auto [rows, columns] = grid_shape(image, s);
  const Normalization norm = s.normalize ? normalization_of(image) : Normalization();
  Pixels pixels = resized(image, norm, columns * s.patch_width, rows * s.patch_height);
  PatchRows out;
  out.count = int64_t{rows} * columns;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      out.values.push_back(static_cast<float>(row + 1));
      out.values.push_back(static_cast<float>(column + 1));
      for (int y = row * s.patch_height; y < (row + 1) * s.patch_height; ++y) {
        const float* from = pixels.at(y, column * s.patch_width);
        out.values.insert(out.values.end(), from, from + 3 * s.patch_width);
      }
    }
  return out;
}

}  // namespace tandem
