#include "models/blocks/attention/relative_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/sound_ops.h"

namespace tandem {
namespace {

constexpr float kTheta = 10000.0f;

}  // namespace

Tensor Distances::table(int longest, int d_model) {
  const Tensor frequencies = rotary_frequencies(d_model, kTheta);
  const Tensor out({2 * int64_t{longest} - 1, d_model}, DType::kF32);
  for (int64_t row = 0; row < out.dim(0); ++row) {
    const auto distance = static_cast<float>(longest - 1 - row);  // query minus key
    for (int64_t i = 0; i < frequencies.dim(0); ++i) {
      const float angle = distance * frequencies.data<float>()[i];
      out.row<float>(row)[2 * i] = std::sin(angle);
      if (2 * i + 1 < d_model) out.row<float>(row)[2 * i + 1] = std::cos(angle);
    }
  }
  return out;
}

Distances Distances::of(Context& ctx, const Tensor& table, std::span<const int32_t> lengths) {
  const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  const auto all = static_cast<int32_t>((table.dim(0) + 1) / 2);
  TANDEM_CHECK_LE(longest, all);
  std::vector<int32_t> rows;
  for (int32_t row = all - longest; row < all + longest - 1; ++row) rows.push_back(row);
  Distances out{ctx.make({std::ssize(rows), table.dim(1)}), longest - 1};
  const Tensor of_rows = step_list(ctx, rows);
  ops::embedding(ctx, {of_rows, of_rows, table, {}, 1.0f, 0, 0, out.rows});
  return out;
}

RelativeAttention::RelativeAttention(const Weights& w, const Build& b, int64_t d_model,
                                     const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias) {
  const int64_t width = int64_t{o.heads} * o.head_dim;
  const Range part = heads_.features();
  if (part.size() == 0) return;  // a rank without heads
  const Tensor weight = to_float((w / "relative_k_proj").get("weight", {width, d_model}),
                                 part.begin * d_model, part.size() * d_model);
  const MatrixView view{weight.raw(), DType::kF32, part.size(), d_model, d_model};
  distance_weight_ = PackedWeight(b.ctx, {&view, 1}, b.dtype, b.quantization);
  const auto bias = [&](const char* name) {
    return b.ctx.resident(to_float(w.get(name, {o.heads, o.head_dim}), part.begin, part.size()));
  };
  q_bias_ = bias("bias_u");
  d_bias_ = bias("bias_v");
}

Tensor RelativeAttention::forward(NormedRows& x, const Tensor& indptr,
                                  const Distances& distances) const {
  const auto [q, k, v] = qkv_.forward(x);
  const int64_t width = heads_.features().size();
  const Tensor by_distance = build_.ctx.make({distances.rows.dim(0), width}),
               out = build_.ctx.make({q.dim(0), width});
  if (width == 0) return out_.forward(out);
  ops::linear(build_.ctx, {&distance_weight_, distances.rows, {}, Activation::kNone, by_distance});
  ops::relative_attention(build_.ctx, {.q = q,
                                       .k = k,
                                       .v = v,
                                       .indptr = indptr,
                                       .distances = by_distance,
                                       .zero = distances.zero,
                                       .q_bias = q_bias_,
                                       .d_bias = d_bias_,
                                       .num_heads = heads_.count(),
                                       .head_dim = heads_.head_dim,
                                       .scale = options_.scale,
                                       .out = out});
  return out_.forward(out);
}

}  // namespace tandem
