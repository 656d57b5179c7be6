// The CPU's argmax: the best of each part of a row, then the best of the parts.
#include <cmath>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void argmax(Context& ctx, const ops::ArgmaxArgs& args) {
  constexpr int64_t kPart = 8192;
  const IsaKernels& isa = isa_kernels();
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1), parts = ceil_div(size, kPart);
  auto* results = static_cast<ArgmaxResult*>(
      ctx.workspace(static_cast<size_t>(rows * parts) * sizeof(ArgmaxResult)));
  auto job = [&](int64_t task, int) {
    const int64_t begin = task % parts * kPart;
    ArgmaxResult r =
        isa.argmax(args.logits.row<float>(task / parts) + begin, std::min(kPart, size - begin));
    r.index += begin;
    results[task] = r;
  };
  run_tasks(ctx, rows * parts, job);
  int32_t* ids = args.ids.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i) {
    const ArgmaxResult* r = results + i * parts;
    int64_t best = 0;
    for (int64_t p = 1; p < parts && !std::isnan(r[best].value); ++p)
      if (std::isnan(r[p].value) || r[p].value > r[best].value) best = p;
    ids[i] = static_cast<int32_t>(r[best].index);
  }
}

}  // namespace tandem::cpu
