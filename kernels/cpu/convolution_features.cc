// The CPU's convolutions and norms of each feature by itself.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kFeaturesTogether = 16;  // a line of a cache

// Some features of one sequence, of rows [begin, end).
struct FeatureBlock {
  int64_t begin, end, first, count;
};

void norm_features(const ops::FeatureNormArgs& args, const FeatureBlock& b) {
  double sums[kFeaturesTogether] = {}, squares[kFeaturesTogether] = {};
  float means[kFeaturesTogether], factors[kFeaturesTogether];
  const auto rows = static_cast<double>(b.end - b.begin);
  for (int64_t t = b.begin; t < b.end; ++t) {
    const float* x = args.x.row<float>(t) + b.first;
    for (int64_t c = 0; c < b.count; ++c) sums[c] += double{x[c]};
  }
  for (int64_t c = 0; c < b.count; ++c) sums[c] /= rows;
  for (int64_t t = b.begin; t < b.end; ++t) {
    const float* x = args.x.row<float>(t) + b.first;
    for (int64_t c = 0; c < b.count; ++c) {
      const double off = double{x[c]} - sums[c];
      squares[c] += off * off;
    }
  }
  for (int64_t c = 0; c < b.count; ++c) {
    means[c] = static_cast<float>(sums[c]);
    factors[c] = static_cast<float>(1.0 / std::sqrt(squares[c] / rows + double{args.eps}));
  }
  const float* weight = args.weight.data<float>() + b.first;
  const float* bias = args.bias.data<float>() + b.first;
  for (int64_t t = b.begin; t < b.end; ++t) {
    const float* x = args.x.row<float>(t) + b.first;
    float* out = args.out.row<float>(t) + b.first;
    for (int64_t c = 0; c < b.count; ++c)
      out[c] = (x[c] - means[c]) * factors[c] * weight[c] + bias[c];
  }
}

// One column of a row of `out`. `first`: the row of x, of the sequence's [begin, end), under the
// kernel's first one.
void convolve_column(const ops::DepthwiseConvArgs& args, int64_t begin, int64_t end, int64_t first,
                     int64_t column, float* out) {
  const int64_t features = args.weight.dim(1);
  const bool single = args.x.dim(1) == args.x_columns;
  std::copy_n(args.bias.data<float>(), features, out);
  for (int i = 0; i < args.height; ++i) {
    const int64_t row = first + i;
    if (row < begin || row >= end) continue;
    for (int j = 0; j < args.width; ++j) {
      const int64_t from = column * args.stride + j - args.column_padding;
      if (from < 0 || from >= args.x_columns) continue;
      const float* weight = args.weight.row<float>(i * args.width + j);
      const float* x = args.x.row<float>(row) + from * (single ? 1 : features);
      if (single)
        for (int64_t c = 0; c < features; ++c) out[c] += weight[c] * x[0];
      else
        for (int64_t c = 0; c < features; ++c) out[c] += weight[c] * x[c];
    }
  }
}

}  // namespace

void feature_norm(Context& ctx, const ops::FeatureNormArgs& args) {
  const int32_t* starts = args.start_loc.data<int32_t>();
  const int64_t size = args.x.dim(1), blocks = ceil_div(size, kFeaturesTogether);
  auto norm = [&](int64_t task, int) {
    const int64_t s = task / blocks, first = task % blocks * kFeaturesTogether;
    if (starts[s] == starts[s + 1]) return;
    norm_features(args,
                  {starts[s], starts[s + 1], first, std::min(kFeaturesTogether, size - first)});
  };
  run_tasks(ctx, (args.start_loc.dim(0) - 1) * blocks, norm);
}

void depthwise_conv(Context& ctx, const ops::DepthwiseConvArgs& args) {
  const int32_t *in = args.start_loc.data<int32_t>(), *out = args.out_starts.data<int32_t>();
  const int64_t sequences = args.start_loc.dim(0) - 1, features = args.weight.dim(1);
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, args.out.dim(0), args.out.dim(1) * 4 * args.height * args.width, [&](int64_t t) {
    const auto s = std::upper_bound(out, out + sequences + 1, static_cast<int32_t>(t)) - out - 1;
    const int64_t first = in[s] + (t - out[s]) * args.stride - args.row_padding;
    float* const to = args.out.row<float>(t);
    for (int64_t q = 0; q < args.out_columns; ++q)
      convolve_column(args, in[s], in[s + 1], first, q, to + q * features);
    if (args.activation != Activation::kNone) isa.activate(args.activation, to, args.out.dim(1));
  });
}

}  // namespace tandem::cpu
