// The CPU's layer normalisation.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void layer_norm(Context& ctx, const ops::LayerNormArgs& args) {
  const IsaKernels& isa = isa_kernels();
  const int64_t size = args.x.dim(1);
  for_rows(ctx, args.x.dim(0), size * 12, [&](int64_t t) {
    const float* x = args.x.row<float>(t);
    const float* residual = args.residual.empty() ? nullptr : args.residual.row<float>(t);
    if (!args.sum.empty()) {
      float* sum = args.sum.row<float>(t);
      for (int64_t i = 0; i < size; ++i) sum[i] = residual == nullptr ? x[i] : x[i] + residual[i];
      x = sum;
      residual = nullptr;
    }
    isa.layer_norm_row({x, residual, args.weight.data<float>(), args.bias.data<float>(), size,
                        args.eps, args.out.row<float>(t)});
  });
}

}  // namespace tandem::cpu
