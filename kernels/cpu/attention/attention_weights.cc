// The CPU's weights of cross-attention: a task is a query.
#include "kernels/cpu/ops_cpu.h"
#include "kernels/cpu/products.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

template <class T>
void weights_of_row(const ops::AttentionWeightsArgs& args, const KvStrides& s, int64_t t,
                    float* scores) {
  const HeadPages<T> pages{args.pages, s, args.page_indices.data<int32_t>(), args.kv_head};
  const float* q = args.q.row<float>(t);
  for (int64_t j = 0; j < args.keys; ++j) scores[j] = pages.product(q, j) * args.scale;
  const float sum = exponentials(scores, args.keys);
  float* out = args.out.row<float>(t);
  for (int64_t j = 0; j < args.out.dim(1); ++j) out[j] = scores[j] / sum;
}

}  // namespace

void attention_weights(Context& ctx, const ops::AttentionWeightsArgs& args) {
  if (args.kv_head < 0) {
    for (int64_t t = 0; t < args.out.dim(0); ++t)
      std::fill_n(args.out.row<float>(t), args.out.dim(1), 0.0f);
    return;
  }
  const KvStrides s = kv_strides(args.pages);
  auto* scores = static_cast<float*>(
      ctx.workspace(static_cast<size_t>(args.keys * ctx.threads()) * sizeof(float)));
  auto job = [&](int64_t t, int thread) {
    float* own = scores + thread * args.keys;
    switch (args.pages.data.dtype()) {
      case DType::kF32: return weights_of_row<float>(args, s, t, own);
      case DType::kI8: return weights_of_row<int8_t>(args, s, t, own);
      default: return weights_of_row<uint16_t>(args, s, t, own);
    }
  };
  run_tasks(ctx, args.q.dim(0), job);
}

}  // namespace tandem::cpu
