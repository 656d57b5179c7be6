#include "models/blocks/layers.h"

#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

FeedForwards make_feed_forward(const Weights& w, const Build& b, const LayerOptions& o) {
  if (o.experts) return Experts(w, b, o.d_model, o.feed_forward, *o.experts);
  return FeedForward(w / o.names.fc1, w / o.names.gate, w / o.names.fc2, b, o.d_model,
                     o.feed_forward);
}

}  // namespace

SublayerNorm::SublayerNorm(const Weights& w, const Build& b, const LayerOptions& o,
                           const char* name, const char* behind)
    : place_(o.norms), norm_(w / name, b, o.d_model, o.eps, o.norm_kind) {
  if (place_ == NormPlace::kBoth) behind_.emplace(w / behind, b, o.d_model, o.eps, o.norm_kind);
}

Tensor Residual::made() const {
  if (norm != nullptr) return NormedRows(*norm, sum, update, /*keep_sum=*/false).rows();
  TANDEM_CHECK(update.empty());
  return sum;
}

template <class Sublayer>
Residual SublayerNorm::apply(Residual state, const Sublayer& f) const {
  if (place_ == NormPlace::kPost) {
    TANDEM_CHECK(state.norm != nullptr || state.update.empty());
    NormedRows x = state.norm == nullptr
                       ? NormedRows(std::move(state.sum))
                       : NormedRows(*state.norm, std::move(state.sum), std::move(state.update),
                                    /*keep_sum=*/false);
    Tensor update = f(x);
    return {x.rows(), std::move(update), &norm_};
  }
  NormedRows x = state.update.empty() ? NormedRows(norm_, {}, std::move(state.sum), true)
                                      : NormedRows(norm_, std::move(state.sum),
                                                   std::move(state.update), /*keep_sum=*/true);
  Tensor update = f(x);
  if (behind_) update = behind_->add_norm({}, std::move(update));
  return {x.sum(), std::move(update)};
}

Tensor normed(const Norm& norm, const Residual& state) {
  if (state.norm != nullptr) return norm.forward(state.made());
  return state.update.empty() ? norm.forward(state.sum) : norm.add_norm(state.sum, state.update);
}

EncoderLayer::EncoderLayer(const Weights& w, const Build& b, const LayerOptions& o)
    : on_cpu_(b.ctx.on_cpu()),
      attention_(make_attention(w, b, o)),
      attention_norm_(w, b, o, o.names.self_norm, o.names.self_norm_behind),
      feed_forward_(make_feed_forward(w, b, o)),
      final_norm_(w, b, o, o.names.final_norm, o.names.final_norm_behind) {}

Residual EncoderLayer::forward(Residual state, const StepTensors& in) const {
  state = attention_norm_.apply(std::move(state), [&](NormedRows& x) {
    make_on_device(x);
    return std::visit([&](const auto& attention) { return attention.forward(x, in); }, attention_);
  });
  return final_norm_.apply(std::move(state), [&](NormedRows& x) {
    make_on_device(x);
    if (const auto* experts = std::get_if<Experts>(&feed_forward_)) return experts->encode(x, in);
    return std::get<FeedForward>(feed_forward_).forward_many(x);
  });
}

EncoderLayer::Attention EncoderLayer::make_attention(const Weights& layer, const Build& b,
                                                     const LayerOptions& o) {
  const Weights w = layer / o.names.self_attention;
  if (o.global_attention)
    return GlobalAttention(w, b, o.d_model, o.self_attention, *o.global_attention);
  if (o.summary_attention)
    return SummaryAttention(w, b, o.d_model, o.self_attention, *o.summary_attention);
  if (o.sparse_attention)
    return SparseAttention(w, b, o.d_model, o.self_attention, *o.sparse_attention);
  if (o.block_attention)
    return BlockAttention(w, b, o.d_model, o.self_attention, *o.block_attention,
                          Norm(layer / o.block_attention->norm, b, o.d_model, o.eps, o.norm_kind));
  if (o.picture_attention)
    return PictureAttention(w, b, o.d_model, o.self_attention, *o.picture_attention);
  if (o.box_attention) return BoxAttention(w, b, o.d_model, o.self_attention, *o.box_attention);
  return EncoderAttention(w, b, o.d_model, o.self_attention);
}

DecoderLayer::Attention DecoderLayer::make_attention(const Weights& w, const Build& b,
                                                     const LayerOptions& o) {
  const auto& names = o.names;
  const Weights self = w / names.self_attention;
  const auto self_norm = [&] {
    return SublayerNorm(w, b, o, names.self_norm, names.self_norm_behind);
  };
  if (o.merged_attention)
    return OneAttention{MergedAttention(self, b, o.d_model, o.self_attention), self_norm()};
  const auto self_attention = [&]() -> SelfAttention {
    if (o.streams) return StreamAttention(self, b, o.d_model, o.self_attention, *o.streams);
    return DecoderSelfAttention(self, b, o.d_model, o.self_attention);
  };
  return TwoAttentions{self_attention(), self_norm(),
                       CrossAttention(w / names.cross_attention, b, o.d_model, o.cross_attention),
                       SublayerNorm(w, b, o, names.cross_norm, names.cross_norm_behind)};
}

DecoderLayer::DecoderLayer(const Weights& w, const Build& b, const LayerOptions& o)
    : attention_(make_attention(w, b, o)),
      feed_forward_(make_feed_forward(w, b, o)),
      final_norm_(w, b, o, o.names.final_norm, o.names.final_norm_behind) {}

Residual DecoderLayer::forward(Residual state, const StepTensors& in, const KvPages& pages) const {
  if (const auto* one = std::get_if<OneAttention>(&attention_)) {
    state = one->norm.apply(std::move(state),
                            [&](NormedRows& x) { return one->merged.forward(x, in, pages); });
  } else {
    const auto& two = std::get<TwoAttentions>(attention_);
    state = two.self_norm.apply(std::move(state), [&](NormedRows& x) {
      return std::visit([&](const auto& self) { return self.forward(x, in, pages); }, two.self);
    });
    state = two.cross_norm.apply(std::move(state),
                                 [&](NormedRows& x) { return two.cross.forward(x, in, pages); });
  }
  return final_norm_.apply(std::move(state), [&](NormedRows& x) {
    if (const auto* experts = std::get_if<Experts>(&feed_forward_)) return experts->decode(x, in);
    return std::get<FeedForward>(feed_forward_).forward(x);
  });
}

void DecoderLayer::write_cross_kv(const Tensor& encoder_states, const StepTensors& in,
                                  const KvPages& pages) const {
  if (const auto* one = std::get_if<OneAttention>(&attention_))
    one->merged.write_kv(encoder_states, in, pages);
  else
    std::get<TwoAttentions>(attention_).cross.write_kv(encoder_states, in, pages);
}

ops::StepNorm step_norm(const Norm& norm) {
  const bool rms = norm.kind() == NormKind::kRms || norm.kind() == NormKind::kRmsPlusOne;
  return {norm.weight(), norm.bias(), norm.eps(), rms};
}

bool DecoderLayer::describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const {
  const auto* two = std::get_if<TwoAttentions>(&attention_);
  const auto* self = two == nullptr ? nullptr : std::get_if<DecoderSelfAttention>(&two->self);
  const auto* feed_forward = std::get_if<FeedForward>(&feed_forward_);
  if (self == nullptr || feed_forward == nullptr || final_norm_.place() == NormPlace::kBoth)
    return false;
  parts.self_norm = step_norm(two->self_norm.norm());
  parts.cross_norm = step_norm(two->cross_norm.norm());
  parts.final_norm = step_norm(final_norm_.norm());
  shape.norms_behind = final_norm_.place() == NormPlace::kPost;
  return self->describe(parts, shape) && two->cross.describe(parts, shape) &&
         feed_forward->describe(parts, shape);
}

CrossWriter::Attention CrossWriter::make_attention(const Weights& w, const Build& b,
                                                   const LayerOptions& o) {
  if (o.merged_attention)
    return MergedAttention(w / o.names.self_attention, b, o.d_model, o.self_attention);
  return CrossAttention(w / o.names.cross_attention, b, o.d_model, o.cross_attention);
}

CrossWriter::CrossWriter(const Weights& w, const Build& b, const LayerOptions& o)
    : attention_(make_attention(w, b, o)) {}

void CrossWriter::write_cross_kv(const Tensor& encoder_states, const StepTensors& in,
                                 const KvPages& pages) const {
  std::visit([&](const auto& attention) { attention.write_kv(encoder_states, in, pages); },
             attention_);
}

}  // namespace tandem
