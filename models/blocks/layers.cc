#include "models/blocks/layers.h"

namespace tandem {
namespace {

// The next state, with a sublayer's f(x).
template <class Sublayer>
Residual apply(NormPlace place, const Norm& norm, const Residual& state, const Sublayer& f) {
  if (place == NormPlace::kPost) return {norm.add_norm(state.sum, f(state.sum))};
  if (state.update.empty()) return {state.sum, f(norm.forward(state.sum))};
  const Norm::Sum added = norm.sum_and_norm(state.sum, state.update);
  return {added.sum, f(added.normed)};
}

}  // namespace

Tensor normed(const Norm& norm, const Residual& state) {
  return state.update.empty() ? norm.forward(state.sum) : norm.add_norm(state.sum, state.update);
}

EncoderLayer::EncoderLayer(const Weights& w, const Build& b, const LayerOptions& o)
    : place_(o.norms),
      attention_(attention(w / o.names.self_attention, b, o)),
      attention_norm_(w / o.names.self_norm, b, o.d_model, o.eps, o.norm_kind),
      feed_forward_(w / o.names.fc1, w / o.names.gate, w / o.names.fc2, b, o.d_model,
                    o.feed_forward),
      final_norm_(w / o.names.final_norm, b, o.d_model, o.eps, o.norm_kind) {}

Residual EncoderLayer::forward(Residual state, const StepTensors& in) const {
  state = apply(place_, attention_norm_, state, [&](const Tensor& x) {
    return std::visit([&](const auto& attention) { return attention.forward(x, in); }, attention_);
  });
  return apply(place_, final_norm_, state,
               [&](const Tensor& x) { return feed_forward_.forward(x); });
}

EncoderLayer::Attention EncoderLayer::attention(const Weights& w, const Build& b,
                                                const LayerOptions& o) {
  if (o.global_attention)
    return GlobalAttention(w, b, o.d_model, o.self_attention, *o.global_attention);
  return EncoderAttention(w, b, o.d_model, o.self_attention);
}

DecoderLayer::DecoderLayer(const Weights& w, const Build& b, const LayerOptions& o)
    : place_(o.norms),
      self_attention_(w / o.names.self_attention, b, o.d_model, o.self_attention),
      self_norm_(w / o.names.self_norm, b, o.d_model, o.eps, o.norm_kind),
      cross_attention_(w / o.names.cross_attention, b, o.d_model, o.cross_attention),
      cross_norm_(w / o.names.cross_norm, b, o.d_model, o.eps, o.norm_kind),
      feed_forward_(w / o.names.fc1, w / o.names.gate, w / o.names.fc2, b, o.d_model,
                    o.feed_forward),
      final_norm_(w / o.names.final_norm, b, o.d_model, o.eps, o.norm_kind) {}

Residual DecoderLayer::forward(Residual state, const StepTensors& in, const KvPages& pages) const {
  state = apply(place_, self_norm_, state,
                [&](const Tensor& x) { return self_attention_.forward(x, in, pages); });
  state = apply(place_, cross_norm_, state,
                [&](const Tensor& x) { return cross_attention_.forward(x, in, pages); });
  return apply(place_, final_norm_, state,
               [&](const Tensor& x) { return feed_forward_.forward(x); });
}

}  // namespace tandem
