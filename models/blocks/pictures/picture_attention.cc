#include "models/blocks/pictures/picture_attention.h"

#include <algorithm>

namespace tandem {
namespace {

// The table's columns of these heads, each as a row.
Tensor bias_of(const Weights& w, const PictureAttentionOptions& o, int64_t heads, Range local) {
  const int64_t side = 2 * o.windows.window - 1, distances = side * side;
  if (o.table == nullptr) {
    const Tensor none({local.size(), distances}, DType::kF32);
    std::fill_n(none.data<float>(), none.size(), 0.0f);
    return none;
  }
  const Tensor table = to_float(w.get(o.table, {distances, heads})).reshape({distances, heads});
  const Tensor out({local.size(), distances}, DType::kF32);
  for (int64_t head = 0; head < local.size(); ++head)
    for (int64_t i = 0; i < distances; ++i)
      out.row<float>(head)[i] = table.row<float>(i)[local.begin + head];
  return out;
}

}  // namespace

PictureAttention::PictureAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o,
                                   const PictureAttentionOptions& picture)
    : AttentionLayer(w, b, d_model, o),
      windows_(picture.windows),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      bias_(b.ctx.resident(bias_of(w, picture, o.heads, heads_.local.queries))) {
  if (!windows_.is_filled_up() || heads_.count() == 0) return;
  const auto [q, k, v] = qkv_.of_zeros();
  pad_k_ = k;
  pad_v_ = v;
}

Tensor PictureAttention::forward(NormedRows& x, const StepTensors&) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::picture_attention(build_.ctx, {.q = q,
                                      .k = k,
                                      .v = v,
                                      .windows = windows_,
                                      .num_heads = heads_.count(),
                                      .head_dim = heads_.head_dim,
                                      .scale = options_.scale,
                                      .bias = bias_,
                                      .out = out,
                                      .pad_k = pad_k_,
                                      .pad_v = pad_v_});
  return out_.forward(out);
}

}  // namespace tandem
