// The attention ops over their kernels: a launch for each kind of work that the plan has.
#include "kernels/cuda/attention/attention_args.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

// rows(parameters), tiles(parameters): of each kind of work that the plan has.
template <class Rows, class Tiles>
void for_work(AttentionParams p, const ops::DeviceAttentionPlan& plan, const Rows& rows,
              const Tiles& tiles) {
  const auto launch = [&](const Tensor& work, const auto& kernel) {
    if (work.empty() || work.dim(0) == 0) return;
    p.work = static_cast<const AttentionWork*>(work.raw());
    p.work_count = static_cast<int32_t>(work.dim(0));
    kernel(p);
  };
  p.most_queries = plan.row_queries;
  p.blocks = plan.row_blocks;
  launch(plan.rows, rows);
  launch(plan.tiles, tiles);
  after_launch("attention");
}

void run(Context& ctx, AttentionParams p, const ops::DeviceAttentionPlan& plan) {
  Tensor partials;
  if (plan.partials > 0) {
    partials = ctx.make({plan.partials, p.num_heads, p.head_dim + 2}, DType::kF32);
    p.partials = partials.data<float>();
    p.tickets = plan.tickets.data<int32_t>();
  }
  for_work(
      p, plan, [&](const AttentionParams& these) { attention_rows(these, stream_of(ctx)); },
      [&](const AttentionParams& these) { attention_tiles(these, stream_of(ctx)); });
}

void add_side(const ops::SideKeys& side, GlobalKeys& out) {
  out.ranges = side.ranges.data<int32_t>();
  out.unit = side.unit;
  if (!side.k.empty()) {
    out.side_k = side.k.raw();
    out.side_v = side.v.raw();
    out.side_k_stride = side.k.row_stride();
    out.side_v_stride = side.v.row_stride();
  }
  if (side.bias.values.empty()) return;
  out.bias = side.bias.values.data<float>();
  out.bias_columns = static_cast<int32_t>(side.bias.values.dim(1));
  out.bias_zero = side.bias.zero;
}

// Whose keys are few, so that nothing is cut into chunks.
void run_global(Context& ctx, const AttentionParams& p, const ops::RaggedAttentionArgs& args) {
  const GlobalKeys globals = global_keys_of(args);
  const auto launch = [&](int most_queries) {
    return [&ctx, globals, most_queries](const AttentionParams& these) {
      attention_global(these, globals, most_queries, stream_of(ctx));
    };
  };
  for_work(p, *args.plan, launch(kRowsPerBlock), launch(kTileRows));
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

// Whether attention itself writes the keys and values of its queries: where none of the works reads
// another's, and few enough that a block does so beside its own.
bool writes_own_keys(const ops::DeviceAttentionPlan& plan) {
  constexpr int kMostQueries = 4;
  return !plan.shared_keys && plan.row_queries <= kMostQueries &&
         (plan.tiles.empty() || plan.tiles.dim(0) == 0);
}

}  // namespace

GlobalKeys global_keys_of(const ops::RaggedAttentionArgs& args) {
  GlobalKeys out{};
  out.indptr = args.indptr.data<int32_t>();
  if (!args.kv_ranges.empty()) out.kv_ranges = args.kv_ranges.data<int32_t>();
  if (!args.global_rows.empty()) out.rows = args.global_rows.data<int32_t>();
  if (!args.global_indptr.empty()) out.rows_indptr = args.global_indptr.data<int32_t>();
  out.sequences = static_cast<int32_t>(args.indptr.dim(0)) - 1;
  if (!args.side.ranges.empty()) add_side(args.side, out);
  return out;
}

AttentionParams params_of(const ops::RaggedAttentionArgs& args) {
  AttentionParams p =
      params_of(args.q, args.out, args.num_heads, args.head_dim, args.scale, args.bias);
  p.k = args.k.raw();
  p.v = args.v.raw();
  p.k_stride = args.k.row_stride();
  p.v_stride = args.v.row_stride();
  p.group = args.num_kv_heads == 0 ? 1 : args.num_heads / args.num_kv_heads;
  p.soft_cap = args.soft_cap;
  p.window_back = args.window.back;
  p.window_ahead = args.window.ahead;
  return p;
}

AttentionParams params_of(const ops::PagedAttentionArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  AttentionParams p =
      params_of(args.q, args.out, args.num_heads, args.head_dim, args.scale, args.bias);
  p.page_type = args.pages.data.dtype();
  if (page_scale_type(p.page_type)) p.scales = args.pages.scales.raw();
  p.pages = args.pages.data.raw();
  p.page_indices = args.kv_page_indices.data<int32_t>();
  p.page_stride = s.block;
  p.value_offset = s.kv;
  p.head_stride = s.head;
  p.token_stride = s.token;
  p.block_size = static_cast<int32_t>(s.block_size);
  p.group = args.num_heads / static_cast<int>(s.num_heads);
  p.soft_cap = args.soft_cap;
  p.window_back = args.window_back;
  if (!args.log_sums.empty()) {
    p.log_sums = args.log_sums.data<float>();
    p.log_sums_stride = args.log_sums.row_stride();
  }
  return p;
}

void ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args) {
  const AttentionParams p = params_of(args);
  if (has_global_keys(args)) {
    run_global(ctx, p, args);
  } else {
    run(ctx, p, *args.plan);
  }
}

void paged_attention(Context& ctx, const ops::PagedAttentionArgs& args) {
  AttentionParams p = params_of(args);
  if (args.write != nullptr) {
    if (writes_own_keys(*args.plan)) {
      p.written = new_keys(*args.write);
    } else {
      cuda::write_kv(ctx, *args.write);
    }
  }
  run(ctx, p, *args.plan);
}

}  // namespace tandem::cuda
