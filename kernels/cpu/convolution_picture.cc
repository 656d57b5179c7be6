// The CPU's convolution of each feature by itself over pictures.
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void picture_conv(Context& ctx, const ops::PictureConvArgs& args) {
  const int64_t d = args.x.dim(1), points = int64_t{args.height} * args.width,
                reach = args.size / 2;
  for_rows(ctx, args.x.dim(0), d * 4 * (int64_t{args.size} * args.size + 1), [&](int64_t row) {
    const int64_t y = row % points / args.width, x = row % args.width;
    float* const out = args.out.row<float>(row);
    std::copy_n(args.bias.data<float>(), d, out);
    for (int64_t dy = -reach; dy <= reach; ++dy) {
      if (y + dy < 0 || y + dy >= args.height) continue;
      for (int64_t dx = -reach; dx <= reach; ++dx) {
        if (x + dx < 0 || x + dx >= args.width) continue;
        const float* const from = args.x.row<float>(row + dy * args.width + dx);
        const float* const weight = args.weight.row<float>((dy + reach) * args.size + dx + reach);
        for (int64_t c = 0; c < d; ++c) out[c] += weight[c] * from[c];
      }
    }
  });
}

}  // namespace tandem::cpu
