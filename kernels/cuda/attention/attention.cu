// The attention ops over their kernels: a launch for each kind of work that the plan has.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

void run(Context& ctx, AttentionParams p, const ops::DeviceAttentionPlan& plan) {
  Tensor partials;
  if (plan.partials > 0) {
    partials = ctx.make({plan.partials, p.num_heads, p.head_dim + 2}, DType::kF32);
    p.partials = partials.data<float>();
    p.tickets = plan.tickets.data<int32_t>();
  }
  const auto launch = [&](const Tensor& work, auto kernel) {
    if (work.empty() || work.dim(0) == 0) return;
    p.work = static_cast<const AttentionWork*>(work.raw());
    p.work_count = static_cast<int32_t>(work.dim(0));
    kernel(p, stream_of(ctx));
  };
  p.most_queries = plan.row_queries;
  launch(plan.rows, attention_rows);
  launch(plan.tiles, attention_tiles);
  after_launch("attention");
}

AttentionParams params_of(const Tensor& q, const Tensor& out, int num_heads, int head_dim,
                          float scale, const ops::PositionBias& bias) {
  AttentionParams p{};
  p.dtype = q.dtype();
  p.q = q.raw();
  p.q_stride = q.row_stride();
  p.out = out.raw();
  p.out_stride = out.row_stride();
  p.num_heads = num_heads;
  p.head_dim = head_dim;
  p.scale = scale;
  if (!bias.values.empty()) {
    p.bias = bias.values.data<float>();
    p.bias_columns = static_cast<int32_t>(bias.values.dim(1));
    p.bias_zero = bias.zero;
  }
  return p;
}

}  // namespace

void ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args) {
  AttentionParams p =
      params_of(args.q, args.out, args.num_heads, args.head_dim, args.scale, args.bias);
  p.k = args.k.raw();
  p.v = args.v.raw();
  p.k_stride = args.k.row_stride();
  p.v_stride = args.v.row_stride();
  run(ctx, p, *args.plan);
}

void paged_attention(Context& ctx, const ops::PagedAttentionArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  AttentionParams p =
      params_of(args.q, args.out, args.num_heads, args.head_dim, args.scale, args.bias);
  if (args.pages.data.dtype() == DType::kF8E4M3) p.scales = args.pages.scales.data<uint8_t>();
  p.pages = args.pages.data.raw();
  p.page_indices = args.kv_page_indices.data<int32_t>();
  p.page_stride = s.block;
  p.value_offset = s.kv;
  p.head_stride = s.head;
  p.token_stride = s.token;
  p.block_size = static_cast<int32_t>(s.block_size);
  run(ctx, p, *args.plan);
}

}  // namespace tandem::cuda
