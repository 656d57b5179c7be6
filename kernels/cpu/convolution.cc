// The CPU's windows of convolutions.
#include <algorithm>

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

}  // namespace tandem::cpu
