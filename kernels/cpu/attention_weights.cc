// The CPU's weights of cross-attention: a task is a query.
#include <array>
#include <cmath>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

float stored(const float* x) { return *x; }
float stored(const uint16_t* x) { return bf16_to_float(*x); }
float stored(const int8_t* x) { return *x; }

// Sixteen sums side by side, then one of them: the same order whatever the compiler makes of it.
template <class T>
float product(const float* q, const T* k, int64_t size) {
  std::array<float, 16> sums{};
  int64_t d = 0;
  for (; d + 16 <= size; d += 16)
    for (int64_t i = 0; i < 16; ++i) sums[static_cast<size_t>(i)] += q[d + i] * stored(k + d + i);
  for (int64_t i = 0; d + i < size; ++i)
    sums[static_cast<size_t>(i)] += q[d + i] * stored(k + d + i);
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

template <class T>
void weights_of_row(const ops::AttentionWeightsArgs& args, const KvStrides& s, int64_t t,
                    float* scores) {
  const auto* keys = static_cast<const T*>(args.pages.data.raw());
  const int32_t* pages = args.page_indices.data<int32_t>();
  const float* q = args.q.row<float>(t);
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < args.keys; ++j) {
    const int64_t at =
        pages[j / s.block_size] * s.block + j % s.block_size * s.token + args.kv_head * s.head;
    float score = product(q, keys + at, s.head_dim) * args.scale;
    if (!args.pages.scales.empty()) score *= args.pages.scales.data<float>()[at / s.head_dim];
    scores[j] = score;
    most = std::max(most, score);
  }
  double sum = 0;
  for (int64_t j = 0; j < args.keys; ++j) sum += scores[j] = std::exp(scores[j] - most);
  float* out = args.out.row<float>(t);
  for (int64_t j = 0; j < args.out.dim(1); ++j) out[j] = scores[j] / static_cast<float>(sum);
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
