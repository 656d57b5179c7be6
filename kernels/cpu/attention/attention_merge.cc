// The CPU's merging of two attentions.
#include <cmath>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void merge_attention(Context& ctx, const ops::MergeAttentionArgs& args) {
  const int64_t heads = args.a_log_sums.dim(1), size = args.a.dim(1), head_dim = size / heads;
  for_rows(ctx, args.a.dim(0), size * 12, [&](int64_t t) {
    const float *a = args.a.row<float>(t), *b = args.b.row<float>(t);
    float* out = args.out.row<float>(t);
    for (int64_t h = 0; h < heads; ++h) {
      const float la = args.a_log_sums.row<float>(t)[h], lb = args.b_log_sums.row<float>(t)[h];
      const float top = std::max(la, lb), wa = std::exp(la - top), wb = std::exp(lb - top);
      const float to_a = wa / (wa + wb), to_b = wb / (wa + wb);
      for (int64_t d = h * head_dim; d < (h + 1) * head_dim; ++d)
        out[d] = a[d] * to_a + b[d] * to_b;
    }
  });
}

}  // namespace tandem::cpu
