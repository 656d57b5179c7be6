// The CPU's head of greedy rows: logits of a task's features go no further than the second cache.
#include "kernels/cpu/best_logits.h"

namespace tandem::cpu {

void linear_best(Context& ctx, const ops::LinearBestArgs& args) {
  const int64_t rows = args.rows.dim(0);
  const Tensor x = ctx.make({rows, args.x.dim(1)});
  gather_rows(ctx, {args.x, args.rows, x});
  BestLogits best(ctx, rows, args.weight->out_features());
  linear(ctx, {args.weight, x, args.bias, Activation::kNone, {}}, &best);
  best.tell(args);
}

}  // namespace tandem::cpu
