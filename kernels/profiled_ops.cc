// Each op's span: its shapes, and the type or kind where there are several. Shapes only: data may
// be a device's.
#include "kernels/profiled_ops.h"

namespace tandem {
namespace {

// The tensor whose shape tells most of an op that has no words of its own; null: none does.
template <class Args>
const Tensor* telling_tensor(const Args& args) {
  if constexpr (requires { args.out; }) return &args.out;
  if constexpr (requires { args.logits; }) return &args.logits;
  if constexpr (requires { args.x; }) return &args.x;
  if constexpr (requires {
                  args.k;
                  args.slot_mapping;
                })
    return &args.k;
  return nullptr;
}

template <class Args>
struct OpWords {
  static constexpr SpanKind kind(const char* name) { return {name, "op", {"rows", "columns"}}; }
  static void say(ProfileSpan& span, const Args& args) {
    const Tensor* const t = telling_tensor(args);
    if (t == nullptr || t->rank() == 0 || t->dim(0) == 0) return;
    span.say({t->dim(0), t->size() / t->dim(0)});
  }
};

template <>
struct OpWords<ops::LinearArgs> {
  static constexpr SpanKind kind(const char* name) {
    return {name, "op", {"rows", "in", "out"}, "dtype"};
  }
  static void say(ProfileSpan& span, const ops::LinearArgs& args) {
    const PackedWeight& w = *args.weight;
    span.say({args.x.dim(0), w.in_features(), w.out_features()}, name_of(w.dtype()));
  }
};

template <>
struct OpWords<ops::RaggedAttentionArgs> {
  static constexpr SpanKind kind(const char* name) {
    return {name, "op", {"rows", "sequences", "heads", "head_dim"}, "dtype"};
  }
  static void say(ProfileSpan& span, const ops::RaggedAttentionArgs& args) {
    span.say({args.q.dim(0), args.indptr.dim(0) - 1, args.num_heads, args.head_dim},
             args.in_16_bits ? "16 bits" : name_of(args.q.dtype()));
  }
};

template <>
struct OpWords<ops::PagedAttentionArgs> {
  static constexpr SpanKind kind(const char* name) {
    return {name, "op", {"rows", "sequences", "heads", "head_dim"}, "kind"};
  }
  static void say(ProfileSpan& span, const ops::PagedAttentionArgs& args) {
    span.say({args.q.dim(0), args.kv_last_page_len.dim(0), args.num_heads, args.head_dim},
             args.causal ? "self" : "cross");
  }
};

#define TANDEM_PROFILED_OP(name, Args, file)                           \
  void profiled_##name(Context& ctx, const ops::Args& args) {          \
    static constexpr SpanKind kKind = OpWords<ops::Args>::kind(#name); \
    ProfileSpan span(kKind);                                           \
    if (span.is_recorded()) OpWords<ops::Args>::say(span, args);       \
    device_ops(ctx).name(ctx, args);                                   \
  }
TANDEM_OPS(TANDEM_PROFILED_OP)
#undef TANDEM_PROFILED_OP

// (Only at load, which no step is.)
Tensor pack_unprofiled(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  return device_ops(ctx).pack_weight(ctx, parts, dtype);
}
QuantizedWeight quantize_unprofiled(Context& ctx, std::span<const MatrixView> parts,
                                    Quantization quantization) {
  return device_ops(ctx).quantize_weight(ctx, parts, quantization);
}

// (Launches nothing.)
bool takes_unprofiled(const Context& ctx, const ops::DecoderStepArgs& args) {
  return device_ops(ctx).takes_decoder_step(ctx, args);
}

}  // namespace

const OpTable kProfiledOps = {pack_unprofiled, quantize_unprofiled, takes_unprofiled,
#define TANDEM_OP_ENTRY(name, Args, file) profiled_##name,
                              TANDEM_OPS(TANDEM_OP_ENTRY)
#undef TANDEM_OP_ENTRY
};

}  // namespace tandem
