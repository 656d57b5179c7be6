#include "runtime/media/sound/words/alignment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// One head's weights, over the rows: [rows, positions]. NaN is +inf, which sorts as there.
void normalise(const HeadWeights& w, int64_t head, std::vector<float>& out) {
  const auto positions = static_cast<size_t>(w.positions);
  std::vector<double> mean(positions), deviation(positions);
  const auto row = [&](int64_t r) { return w.values.data() + (r * w.heads + head) * w.positions; };
  for (int64_t r = 0; r < w.rows; ++r)
    for (size_t p = 0; p < positions; ++p) mean[p] += row(r)[p];
  for (double& x : mean) x /= static_cast<double>(w.rows);
  for (int64_t r = 0; r < w.rows; ++r)
    for (size_t p = 0; p < positions; ++p)
      deviation[p] += (row(r)[p] - mean[p]) * (row(r)[p] - mean[p]);
  for (double& x : deviation) x = std::sqrt(x / static_cast<double>(w.rows));
  for (int64_t r = 0; r < w.rows; ++r) {
    float* to = out.data() + r * w.positions;
    for (size_t p = 0; p < positions; ++p) {
      const float difference = row(r)[p] - static_cast<float>(mean[p]);
      to[p] = deviation[p] == 0 ? kInfinity : difference / static_cast<float>(deviation[p]);
    }
  }
}

// The medians of one row, whose edges are reflected. Blocks of windows are sorted side by side.
class MedianFilter {
 public:
  MedianFilter(int64_t size, int width)
      : size_(size),
        width_(width),
        half_(width / 2),
        padded_(static_cast<size_t>(size + 2 * half_ + kBlock)),
        lanes_(static_cast<size_t>(width)) {}

  void run(float* row) {
    if (size_ <= half_) return;
    std::fill(padded_.begin(), padded_.end(), kInfinity);
    std::copy(row, row + size_, padded_.begin() + half_);
    for (int64_t i = 1; i <= half_; ++i) {
      padded_[static_cast<size_t>(half_ - i)] = row[i];
      padded_[static_cast<size_t>(half_ + size_ - 1 + i)] = row[size_ - 1 - i];
    }
    for (int64_t at = 0; at < size_; at += kBlock) {
      for (int64_t k = 0; k < width_; ++k)
        std::copy_n(padded_.begin() + at + k, kBlock, lanes_[static_cast<size_t>(k)].begin());
      sort();
      std::copy_n(lanes_[static_cast<size_t>(half_)].begin(), std::min(kBlock, size_ - at),
                  row + at);
    }
  }

 private:
  static constexpr int64_t kBlock = 64;
  using Lane = std::array<float, static_cast<size_t>(kBlock)>;

  // (Odd-even transposition: the same exchanges for every window.)
  void sort() {
    for (size_t turn = 0; turn < lanes_.size(); ++turn)
      for (size_t k = turn % 2; k + 1 < lanes_.size(); k += 2) {
        Lane &a = lanes_[k], &b = lanes_[k + 1];
        for (size_t i = 0; i < a.size(); ++i) {
          const float low = std::min(a[i], b[i]), high = std::max(a[i], b[i]);
          a[i] = low;
          b[i] = high;
        }
      }
  }

  int64_t size_, width_, half_;
  std::vector<float> padded_;
  std::vector<Lane> lanes_;
};

// Where a cell's path comes from.
enum class Step : uint8_t { kBoth, kRow, kPosition };

}  // namespace

std::vector<float> alignment_matrix(const HeadWeights& w, int width) {
  TANDEM_CHECK(width > 0 && width % 2 == 1, "a median has a middle");
  TANDEM_CHECK_GE(w.heads, 1);
  TANDEM_CHECK_EQ(std::ssize(w.values), w.rows * w.heads * w.positions);
  const auto size = static_cast<size_t>(w.rows * w.positions);
  std::vector<float> head(size), out(size);
  MedianFilter median(w.positions, width);
  for (int64_t h = 0; h < w.heads; ++h) {
    normalise(w, h, head);
    for (int64_t r = 0; r < w.rows; ++r) median.run(head.data() + r * w.positions);
    for (size_t i = 0; i < size; ++i) out[i] += head[i];
  }
  for (float& x : out) x = std::isinf(x) ? kNaN : x / static_cast<float>(w.heads);
  return out;
}

// The matrix with a row and a column before it, as there; costs of one row are enough.
std::vector<int64_t> first_positions(std::span<const float> matrix, int64_t rows,
                                     int64_t positions) {
  TANDEM_CHECK_EQ(std::ssize(matrix), rows * positions);
  std::vector<int64_t> out(static_cast<size_t>(rows));
  if (rows == 0 || positions == 0) return out;
  std::vector<Step> steps(matrix.size());
  std::vector<float> before(static_cast<size_t>(positions) + 1, kInfinity), costs(before);
  before[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    costs[0] = kInfinity;
    for (int64_t p = 0; p < positions; ++p) {
      const auto cell = static_cast<size_t>(r * positions + p), at = static_cast<size_t>(p);
      const float both = before[at], row = before[at + 1], position = costs[at];
      float least = position;
      steps[cell] = Step::kPosition;
      if (both < row && both < position) {
        least = both;
        steps[cell] = Step::kBoth;
      } else if (row < both && row < position) {
        least = row;
        steps[cell] = Step::kRow;
      }
      costs[at + 1] = least - matrix[cell];
    }
    std::swap(before, costs);
  }
  int64_t r = rows - 1, p = positions - 1;
  while (r >= 0) {
    out[static_cast<size_t>(r)] = std::max<int64_t>(p, 0);
    const Step step = p < 0 ? Step::kRow : steps[static_cast<size_t>(r * positions + p)];
    if (step != Step::kPosition) --r;
    if (step != Step::kRow) --p;
  }
  return out;
}

}  // namespace tandem
