// A decoder's layers by the ops that models call, and who has a kernel for them (decoder_ops.h).
#include "kernels/decoder_ops.h"

#include <utility>

#include "kernels/backends/attention_backend.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

class ComposedStep {
 public:
  ComposedStep(Context& ctx, const DecoderStepArgs& args)
      : ctx_(ctx), args_(args), sum_(args.x), update_(args.update) {}

  void run() {
    for (size_t i = 0; i < args_.layers.size(); ++i) {
      const DecoderLayerParts& layer = args_.layers[i];
      const KvPages& pages = args_.pages[i];
      add(layer.self_norm, [&](const Tensor& x) { return self(layer, pages, x); });
      add(layer.cross_norm, [&](const Tensor& x) { return cross(layer, pages, x); });
      add(layer.final_norm, [&](const Tensor& x) { return feed_forward(layer, x); });
    }
    const StepNorm& last =
        args_.shape.norms_behind ? args_.layers.back().final_norm : *args_.last_norm;
    norm(last, sum_, update_, args_.out, {});
  }

 private:
  void norm(const StepNorm& n, const Tensor& residual, const Tensor& x, const Tensor& out,
            const Tensor& sum) {
    layer_norm(ctx_, {x, residual, n.weight, n.bias, n.eps, out, sum, n.rms});
  }
  Tensor like_x() { return ctx_.make({args_.x.dim(0), args_.x.dim(1)}); }

  // A sublayer.
  template <class F>
  void add(const StepNorm& n, const F& f) {
    Tensor x = sum_;
    if (args_.shape.norms_behind) {
      if (pending_ != nullptr) norm(*pending_, sum_, update_, x = like_x(), {});
      pending_ = &n;
      sum_ = x;
    } else if (update_.empty()) {
      norm(n, {}, sum_, x = like_x(), {});
    } else {
      const Tensor sum = like_x();
      norm(n, sum_, update_, x = like_x(), sum);
      sum_ = sum;
    }
    update_ = f(x);
  }

  Tensor multiply(const StepProduct& product, const Tensor& x,
                  Activation activation = Activation::kNone) {
    const Tensor out = ctx_.make({x.dim(0), product.weight.out_features()});
    linear(ctx_, {&product.weight, x, product.bias, activation, out});
    return out;
  }

  PagedAttentionArgs attention(const Tensor& q, const KvPages& pages, const StepKeys& keys,
                               float scale) {
    PagedAttentionArgs out{};
    out.q = q;
    out.pages = pages;
    out.qo_indptr = keys.qo_indptr;
    out.kv_indptr = keys.indptr;
    out.kv_page_indices = keys.page_indices;
    out.kv_last_page_len = keys.last_page_len;
    out.num_heads = args_.shape.num_heads;
    out.head_dim = args_.shape.head_dim;
    out.scale = scale;
    out.out = ctx_.make({q.dim(0), int64_t{out.num_heads} * out.head_dim});
    out.plan = keys.plan;
    return out;
  }

  Tensor self(const DecoderLayerParts& layer, const KvPages& pages, const Tensor& x) {
    const Tensor y = multiply(layer.qkv, x);
    const int64_t width = y.dim(1) / 3;
    const WriteKvArgs write{y.columns(width, 2 * width), y.columns(2 * width, 3 * width),
                            args_.slot_mapping, pages};
    PagedAttentionArgs a =
        attention(y.columns(0, width), pages, args_.self, args_.shape.self_scale);
    a.causal = true;
    a.bias = layer.bias;
    a.write = &write;
    paged_attention(ctx_, a);
    return multiply(layer.self_out, a.out);
  }

  Tensor cross(const DecoderLayerParts& layer, const KvPages& pages, const Tensor& x) {
    const PagedAttentionArgs a =
        attention(multiply(layer.cross_q, x), pages, args_.cross, args_.shape.cross_scale);
    paged_attention(ctx_, a);
    return multiply(layer.cross_out, a.out);
  }

  Tensor feed_forward(const DecoderLayerParts& layer, const Tensor& x) {
    if (!args_.shape.gated)
      return multiply(layer.second, multiply(layer.first, x, args_.shape.activation));
    const Tensor y = multiply(layer.first, x);
    const int64_t width = y.dim(1) / 2;
    const Tensor gate = y.columns(0, width);
    gated_activation(ctx_, {gate, y.columns(width, 2 * width), args_.shape.activation, gate});
    return multiply(layer.second, gate);
  }

  Context& ctx_;
  const DecoderStepArgs& args_;
  Tensor sum_, update_;
  const StepNorm* pending_ = nullptr;  // of sum_ + update_
};

}  // namespace

bool takes_decoder_step(const Context& ctx, const DecoderStepArgs& args) {
  return !ctx.on_cpu() && AttentionScope::table_of(ctx) == nullptr &&
         ops_of(ctx).takes_decoder_step(ctx, args);
}

void compose_decoder_step(Context& ctx, const DecoderStepArgs& args) {
  ComposedStep(ctx, args).run();
}

}  // namespace tandem::ops
