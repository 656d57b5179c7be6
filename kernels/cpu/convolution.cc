// The CPU's windows of convolutions, and the norm between them.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

// One row of `out`: the window that begins at row `first` of a sequence of x, [begin, end).
void write_window(const Tensor& x, int64_t begin, int64_t end, int64_t first, int width,
                  float* out) {
  const int64_t size = x.dim(1);
  for (int k = 0; k < width; ++k) {
    const int64_t row = first + k;
    if (row < begin || row >= end) {
      for (int64_t c = 0; c < size; ++c) out[c * width + k] = 0.0f;
      continue;
    }
    const float* from = x.row<float>(row);
    for (int64_t c = 0; c < size; ++c) out[c * width + k] = from[c];
  }
}

// What a task sums: a sum does not depend on who else has tasks.
constexpr int64_t kNormRows = 64;

struct Sums {
  double values = 0, squares = 0;
};

struct NormTask {
  int32_t sequence;
  int64_t begin, end;  // rows
};

std::vector<NormTask> norm_tasks(const ops::SequenceNormArgs& args) {
  std::vector<NormTask> out;
  const int32_t* starts = args.start_loc.data<int32_t>();
  for (int32_t s = 0; s + 1 < args.start_loc.dim(0); ++s)
    for (int64_t row = starts[s]; row < starts[s + 1]; row += kNormRows)
      out.push_back({s, row, std::min<int64_t>(row + kNormRows, starts[s + 1])});
  return out;
}

// Eight sums side by side.
Sums sums_of(const Tensor& x, const NormTask& task) {
  constexpr int64_t kLanes = 8;
  double values[kLanes] = {}, squares[kLanes] = {};
  const auto add = [&](double value, int64_t lane) {
    values[lane] += value;
    squares[lane] += value * value;
  };
  const int64_t size = x.dim(1), whole = size / kLanes * kLanes;
  for (int64_t row = task.begin; row < task.end; ++row) {
    const float* from = x.row<float>(row);
    for (int64_t c = 0; c < whole; c += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) add(double{from[c + lane]}, lane);
    for (int64_t c = whole; c < size; ++c) add(double{from[c]}, c - whole);
  }
  Sums out;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    out.values += values[lane];
    out.squares += squares[lane];
  }
  return out;
}

struct Moments {
  float mean = 0, factor = 0;  // 1 / sqrt(var + eps)
};

// Of each sequence.
std::vector<Moments> moments_of(const ops::SequenceNormArgs& args, std::span<const NormTask> tasks,
                                std::span<const Sums> parts) {
  const int32_t* starts = args.start_loc.data<int32_t>();
  std::vector<Sums> sums(static_cast<size_t>(args.start_loc.dim(0) - 1));
  for (size_t i = 0; i < tasks.size(); ++i) {
    Sums& sum = sums[static_cast<size_t>(tasks[i].sequence)];
    sum.values += parts[i].values;
    sum.squares += parts[i].squares;
  }
  std::vector<Moments> out;
  for (size_t s = 0; s < sums.size(); ++s) {
    const double count =
        static_cast<double>(starts[s + 1] - starts[s]) * static_cast<double>(args.x.dim(1));
    const double mean = sums[s].values / std::max(count, 1.0);
    const double variance = std::max(sums[s].squares / std::max(count, 1.0) - mean * mean, 0.0);
    out.push_back({static_cast<float>(mean),
                   static_cast<float>(1.0 / std::sqrt(variance + double{args.eps}))});
  }
  return out;
}

}  // namespace

void conv_windows(Context& ctx, const ops::ConvWindowsArgs& args) {
  const int32_t *in = args.start_loc.data<int32_t>(), *out = args.out_starts.data<int32_t>();
  const int64_t sequences = args.start_loc.dim(0) - 1;
  for_rows(ctx, args.out.dim(0), args.out.dim(1) * 8, [&](int64_t t) {
    const auto s = std::upper_bound(out, out + sequences + 1, static_cast<int32_t>(t)) - out - 1;
    const int64_t first = in[s] + (t - out[s]) * args.stride - args.padding;
    write_window(args.x, in[s], in[s + 1], first, args.width, args.out.row<float>(t));
  });
}

void sequence_norm(Context& ctx, const ops::SequenceNormArgs& args) {
  const std::vector<NormTask> tasks = norm_tasks(args);
  std::vector<Sums> parts(tasks.size());
  auto sum = [&](int64_t task, int) {
    const auto i = static_cast<size_t>(task);
    parts[i] = sums_of(args.x, tasks[i]);
  };
  run_tasks(ctx, std::ssize(tasks), sum);
  const std::vector<Moments> moments = moments_of(args, tasks, parts);
  const float *weight = args.weight.data<float>(), *bias = args.bias.data<float>();
  auto norm = [&](int64_t task, int) {
    const NormTask& rows = tasks[static_cast<size_t>(task)];
    const auto [mean, factor] = moments[static_cast<size_t>(rows.sequence)];
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const float* from = args.x.row<float>(row);
      float* to = args.out.row<float>(row);
      for (int64_t c = 0; c < args.x.dim(1); ++c)
        to[c] = (from[c] - mean) * factor * weight[c] + bias[c];
    }
  };
  run_tasks(ctx, std::ssize(tasks), norm);
}

}  // namespace tandem::cpu
