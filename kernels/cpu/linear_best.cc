// The CPU's head of greedy rows: what devices are compared with.
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/row_math.h"

namespace tandem::cpu {

void linear_best(Context& ctx, const ops::LinearBestArgs& args) {
  const int64_t rows = args.rows.dim(0), width = args.weight->out_features();
  const Tensor x = ctx.make({rows, args.x.dim(1)}), out(Shape{rows, width}, DType::kF32);
  gather_rows(ctx, {args.x, args.rows, x});
  linear(ctx, {args.weight, x, args.bias, Activation::kNone, out});
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<float> logits(out.row<float>(row), static_cast<size_t>(width));
    const int32_t best = top_ids(logits, 1)[0];
    args.log_sums.data<float>()[row] = static_cast<float>(log_sum_exp(logits));
    *args.ids.row<int32_t>(row) = best;
    *args.values.row<float>(row) = logits[static_cast<size_t>(best)];
    if (!args.best.empty()) args.best.data<int32_t>()[row] = best;
  }
}

}  // namespace tandem::cpu
