// Attention within windows of pictures, step by step as HuggingFace's Swin layers do it; among
// their features; convolutions of each feature.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference.h"

namespace tandem::reference {
namespace {

// A point of a picture that is filled up and rolled.
struct Point {
  int64_t row = -1;  // of the tensors; -1: it fills up
  int region = 0;    // whether the edge came before it, downwards and to the right
};

std::vector<Point> rolled(const PictureWindows& w, int64_t first_row) {
  const int64_t height = int64_t{w.rows()} * w.window, width = int64_t{w.columns()} * w.window;
  std::vector<Point> out;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_y = (y + w.shift) % height, from_x = (x + w.shift) % width;
      Point p;
      if (from_y < w.height && from_x < w.width) p.row = first_row + from_y * w.width + from_x;
      p.region = (from_y < y ? 2 : 0) + (from_x < x ? 1 : 0);
      out.push_back(p);
    }
  return out;
}

double bias_at(const ops::PictureAttentionArgs& args, int head, int64_t dy, int64_t dx) {
  const int64_t n = args.windows.window;
  return double{args.bias.row<float>(head)[(dy + n - 1) * (2 * n - 1) + dx + n - 1]};
}

const float* row_of(const Tensor& t, const Tensor& pad, int64_t row) {
  return row < 0 ? pad.row<float>(0) : t.row<float>(row);
}

// The point at place `i` of the window that begins at `first`.
size_t place(int64_t first, int64_t i, int64_t window, int64_t width) {
  return static_cast<size_t>(first + i / window * width + i % window);
}

void attend_point(const ops::PictureAttentionArgs& args, const std::vector<Point>& points,
                  int64_t first, int64_t i, int head) {
  const int64_t n = args.windows.window, width = args.windows.columns() * n;
  const Point& query = points[place(first, i, n, width)];
  if (query.row < 0) return;
  const int64_t column = int64_t{head} * args.head_dim;
  std::vector<double> weights;
  double sum = 0;
  for (int64_t j = 0; j < n * n; ++j) {
    const Point& key = points[place(first, j, n, width)];
    double score = 0;
    for (int d = 0; d < args.head_dim; ++d)
      score += double{args.q.row<float>(query.row)[column + d]} *
               double{row_of(args.k, args.pad_k, key.row)[column + d]};
    score = score * double{args.scale} + bias_at(args, head, i / n - j / n, i % n - j % n);
    weights.push_back(score - (key.region == query.region ? 0.0 : 100.0));
  }
  const double top = *std::max_element(weights.begin(), weights.end());
  for (double& weight : weights) sum += weight = std::exp(weight - top);
  for (int d = 0; d < args.head_dim; ++d) {
    double value = 0;
    for (int64_t j = 0; j < n * n; ++j)
      value +=
          weights[static_cast<size_t>(j)] / sum *
          double{row_of(args.v, args.pad_v, points[place(first, j, n, width)].row)[column + d]};
    args.out.row<float>(query.row)[column + d] = static_cast<float>(value);
  }
}

}  // namespace

void picture_attention(const ops::PictureAttentionArgs& args) {
  const PictureWindows& w = args.windows;
  const int64_t n = w.window, width = w.columns() * n;
  for (int64_t row = 0; row < args.q.dim(0); row += int64_t{w.height} * w.width) {
    const std::vector<Point> points = rolled(w, row);
    for (int64_t y = 0; y < w.rows(); ++y)
      for (int64_t x = 0; x < w.columns(); ++x)
        for (int64_t i = 0; i < n * n; ++i)
          for (int head = 0; head < args.num_heads; ++head)
            attend_point(args, points, y * n * width + x * n, i, head);
  }
}

void channel_attention(const ops::ChannelAttentionArgs& args) {
  const int64_t width = args.width;
  for (int64_t first = 0; first < args.q.dim(0); first += args.points)
    for (int64_t c = 0; c < args.q.dim(1); ++c) {
      const int64_t group = c / width * width;
      std::vector<double> weights;
      double sum = 0;
      for (int64_t other = group; other < group + width; ++other) {
        double score = 0;
        for (int64_t t = first; t < first + args.points; ++t)
          score += double{args.q.row<float>(t)[c]} * double{args.k.row<float>(t)[other]};
        weights.push_back(score * double{args.scale});
      }
      const double top = *std::max_element(weights.begin(), weights.end());
      for (double& weight : weights) sum += weight = std::exp(weight - top);
      for (int64_t t = first; t < first + args.points; ++t) {
        double value = 0;
        for (int64_t i = 0; i < width; ++i)
          value += weights[static_cast<size_t>(i)] / sum * double{args.v.row<float>(t)[group + i]};
        args.out.row<float>(t)[c] = static_cast<float>(value);
      }
    }
}

void picture_conv(const ops::PictureConvArgs& args) {
  const int64_t points = int64_t{args.height} * args.width, reach = args.size / 2;
  for (int64_t row = 0; row < args.x.dim(0); ++row)
    for (int64_t c = 0; c < args.x.dim(1); ++c) {
      const int64_t y = row % points / args.width, x = row % points % args.width;
      double sum = double{args.bias.data<float>()[c]};
      for (int64_t i = 0; i < int64_t{args.size} * args.size; ++i) {
        const int64_t dy = i / args.size - reach, dx = i % args.size - reach;
        if (y + dy < 0 || y + dy >= args.height || x + dx < 0 || x + dx >= args.width) continue;
        sum += double{args.weight.row<float>(i)[c]} *
               double{args.x.row<float>(row + dy * args.width + dx)[c]};
      }
      args.out.row<float>(row)[c] = static_cast<float>(sum);
    }
}

}  // namespace tandem::reference
