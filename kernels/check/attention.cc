// Attention over pages and over ragged sequences, the merging of two: checks, dispatch.
#include <algorithm>

#include "kernels/check/check_args.h"
#include "kernels/check/check_write.h"
#include "kernels/kv_pages.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// A sequence with queries has at least one key, and a causal one at least as many as queries.
template <class Args>
void check_sequences(const Args& args, int64_t sequences, int64_t block_size, bool causal) {
  const int32_t* qo = args.qo_indptr.template data<int32_t>();
  const int32_t* kv = args.kv_indptr.template data<int32_t>();
  const int32_t* last = args.kv_last_page_len.template data<int32_t>();
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t queries = qo[i + 1] - qo[i], pages = kv[i + 1] - kv[i];
    if (queries == 0) continue;
    TANDEM_CHECK_GE(pages, 1);
    TANDEM_CHECK_GE(int64_t{last[i]}, 1);
    TANDEM_CHECK_LE(int64_t{last[i]}, block_size);
    if (causal) TANDEM_CHECK_GE(block_size * (pages - 1) + last[i], queries);
  }
}

// What the CPU reads. A device reads its plan, which was made of them.
template <class Args>
void check_tables(const Args& args, int64_t rows, const KvStrides& s, bool causal) {
  TANDEM_CHECK_EQ(args.kv_last_page_len.rank(), 1);
  TANDEM_CHECK_EQ(args.kv_page_indices.rank(), 1);
  const int64_t sequences = args.kv_last_page_len.dim(0);
  check_vector(args.kv_last_page_len, sequences, DType::kI32);
  check_indptr(args.qo_indptr, sequences, rows);
  check_vector(args.kv_page_indices, args.kv_page_indices.dim(0), DType::kI32);
  check_indptr(args.kv_indptr, sequences, args.kv_page_indices.dim(0));
  check_range(args.kv_page_indices, 0, s.num_blocks);
  check_sequences(args, sequences, s.block_size, causal);
}

// Of the queries' own tokens, to the pages that are read. The CPU writes them here.
void check_own_keys(Context& ctx, const PagedAttentionArgs& args) {
  TANDEM_CHECK(args.causal, "own keys of cross-attention");
  TANDEM_CHECK_EQ(args.write->k.dim(0), args.q.dim(0));
  TANDEM_CHECK(args.write->pages.data.raw() == args.pages.data.raw(), "pages of another layer");
  if (ctx.on_cpu()) return write_kv(ctx, *args.write);
  check_write(ctx, *args.write);
}

// All heads of keys have as many heads of queries.
void check_groups(int64_t heads, int64_t kv_heads) {
  TANDEM_CHECK_GE(heads, 0);
  TANDEM_CHECK_GE(kv_heads, heads > 0 ? 1 : 0);
  if (heads > 0) TANDEM_CHECK_EQ(heads % kv_heads, 0);
}

void check_window(const Window& window) {
  TANDEM_CHECK_GE(window.back, Window::kAll);
  TANDEM_CHECK_GE(window.ahead, Window::kAll);
}

// Each sequence's are rows of its own, in order.
void check_global_rows(const RaggedAttentionArgs& args, int64_t sequences) {
  TANDEM_CHECK_EQ(args.global_rows.rank(), 1);
  const int64_t count = args.global_rows.dim(0);
  check_vector(args.global_rows, count, DType::kI32);
  check_indptr(args.global_indptr, sequences, count);
  if (args.global_rows.device() != Device::kCpu) return;
  const int32_t* rows = args.global_rows.data<int32_t>();
  const int32_t *of = args.global_indptr.data<int32_t>(), *indptr = args.indptr.data<int32_t>();
  for (int64_t s = 0; s < sequences; ++s)
    for (int32_t i = of[s]; i < of[s + 1]; ++i) {
      TANDEM_CHECK_GE(rows[i], i > of[s] ? rows[i - 1] + 1 : indptr[s]);
      TANDEM_CHECK_LT(rows[i], indptr[s + 1]);
    }
}

void check_side(Context& ctx, const RaggedAttentionArgs& args, int64_t kv_heads) {
  const SideKeys& side = args.side;
  TANDEM_CHECK(args.global_indptr.empty(), "global tokens and side keys");
  TANDEM_CHECK_GE(side.unit, 0);
  check_bias(ctx, side.bias, args.num_heads);
  const int64_t rows = side.k.empty() ? 0 : side.k.dim(0);
  if (rows > 0) {
    check_activations(ctx, side.k, rows, kv_heads * args.head_dim);
    check_activations(ctx, side.v, rows, kv_heads * args.head_dim);
  }
  check_ranges(ctx, side.ranges, args.indptr.dim(0) - 1, rows, /*least=*/0);
}

// Keys of their own for the queries' sequences: some for each that has queries.
void check_kv_ranges(Context& ctx, const RaggedAttentionArgs& args, int64_t sequences) {
  TANDEM_CHECK(args.bias.values.empty() && args.global_rows.empty() &&
                   (args.side.bias.values.empty() || args.side.unit == 0) &&
                   args.window.back == Window::kAll && args.window.ahead == Window::kAll,
               "places among the keys for queries that are not of their tokens");
  check_ranges(ctx, args.kv_ranges, sequences, args.k.dim(0), /*least=*/0);
  if (args.kv_ranges.device() != Device::kCpu) return;
  const int32_t* qo = args.indptr.data<int32_t>();
  for (int64_t s = 0; s < sequences; ++s) {
    const int32_t* range = args.kv_ranges.row<int32_t>(s);
    if (qo[s + 1] > qo[s]) TANDEM_CHECK_GT(range[1], range[0]);
  }
}

// What the CPU reads.
void check_ragged_rows(const RaggedAttentionArgs& args, int64_t rows) {
  TANDEM_CHECK_EQ(args.indptr.rank(), 1);
  TANDEM_CHECK_GE(args.indptr.dim(0), 1);
  const int64_t sequences = args.indptr.dim(0) - 1;
  check_indptr(args.indptr, sequences, rows);
  if (!args.global_rows.empty()) check_global_rows(args, sequences);
}

}  // namespace

void paged_attention(Context& ctx, const PagedAttentionArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  check_groups(args.num_heads, s.num_heads);
  TANDEM_CHECK_EQ(s.head_dim, int64_t{args.head_dim});
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  const int64_t rows = args.q.dim(0), size = args.num_heads * s.head_dim;
  check_activations(ctx, args.q, rows, size);
  check_activations(ctx, args.out, rows, size);
  TANDEM_CHECK(args.bias.values.empty() || args.causal, "a bias of cross-attention");
  check_bias(ctx, args.bias, args.num_heads);
  check_page_type(ctx, args.pages);
  TANDEM_CHECK_GE(args.soft_cap, 0.0f);
  check_window({args.window_back, Window::kAll});
  TANDEM_CHECK(args.window_back == Window::kAll || args.causal, "a window of cross-attention");
  if (!args.log_sums.empty()) check_matrix_there(ctx, args.log_sums, rows, args.num_heads);
  if (args.plan == nullptr) check_tables(args, rows, s, args.causal);
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (args.write != nullptr) check_own_keys(ctx, args);
  if (rows > 0 && size > 0) ops_of(ctx).paged_attention(ctx, args);
}

void ragged_attention(Context& ctx, const RaggedAttentionArgs& args) {
  const int64_t kv_heads = args.num_kv_heads == 0 ? args.num_heads : args.num_kv_heads;
  check_groups(args.num_heads, kv_heads);
  TANDEM_CHECK_GE(args.head_dim, 1);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  TANDEM_CHECK_EQ(args.k.rank(), 2);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  const int64_t keys = args.kv_ranges.empty() ? rows : args.k.dim(0);
  check_activations(ctx, args.q, rows, size);
  check_activations(ctx, args.k, keys, kv_heads * args.head_dim);
  check_activations(ctx, args.v, keys, kv_heads * args.head_dim);
  check_activations(ctx, args.out, rows, size);
  check_bias(ctx, args.bias, args.num_heads);
  TANDEM_CHECK_GE(args.soft_cap, 0.0f);
  check_window(args.window);
  if (args.plan == nullptr) check_ragged_rows(args, rows);
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (!args.kv_ranges.empty()) check_kv_ranges(ctx, args, args.indptr.dim(0) - 1);
  if (!args.side.ranges.empty() && size > 0) check_side(ctx, args, kv_heads);
  if (rows > 0 && size > 0) ops_of(ctx).ragged_attention(ctx, args);
}

void picture_attention(Context& ctx, const PictureAttentionArgs& args) {
  const PictureWindows& w = args.windows;
  TANDEM_CHECK_GE(std::min({w.height, w.width, w.window, args.head_dim}), 1);
  TANDEM_CHECK_LE(w.window, PictureWindows::kMostWindow);
  TANDEM_CHECK(w.shift >= 0 && w.shift < w.window, "a shift over a window");
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  TANDEM_CHECK_EQ(rows % (int64_t{w.height} * w.width), 0);
  for (const Tensor* t : {&args.q, &args.k, &args.v, &args.out})
    check_activations(ctx, *t, rows, size);
  TANDEM_CHECK_EQ(args.pad_k.empty(), !w.is_filled_up() || size == 0);
  if (!args.pad_k.empty())
    for (const Tensor* t : {&args.pad_k, &args.pad_v}) check_activations(ctx, *t, 1, size);
  if (rows == 0 || size == 0) return;
  const int64_t distances = 2 * w.window - 1;
  check_matrix_there(ctx, args.bias, args.num_heads, distances * distances);
  ops_of(ctx).picture_attention(ctx, args);
}

void relative_attention(Context& ctx, const RelativeAttentionArgs& args) {
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_GE(args.head_dim, 1);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  TANDEM_CHECK_EQ(args.indptr.rank(), 1);
  TANDEM_CHECK_EQ(args.distances.rank(), 2);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  const int64_t sequences = args.indptr.dim(0) - 1, distances = args.distances.dim(0);
  TANDEM_CHECK_GE(sequences, 0);
  check_indptr(args.indptr, sequences, rows);
  for (const Tensor* t : {&args.q, &args.k, &args.v, &args.out})
    check_activations(ctx, *t, rows, size);
  check_activations(ctx, args.distances, distances, size);
  for (const Tensor* t : {&args.q_bias, &args.d_bias}) check_vector(*t, size, DType::kF32);
  if (rows == 0 || size == 0) return;
  TANDEM_CHECK(args.zero >= 0 && args.zero < distances, "no row of distance 0");
  if (args.indptr.device() == Device::kCpu)
    for (int64_t s = 0; s < sequences; ++s) {
      const int64_t length = args.indptr.data<int32_t>()[s + 1] - args.indptr.data<int32_t>()[s];
      TANDEM_CHECK_LE(length, args.zero + 1);
      TANDEM_CHECK_LE(args.zero + length, distances);
    }
  ops_of(ctx).relative_attention(ctx, args);
}

void channel_attention(Context& ctx, const ChannelAttentionArgs& args) {
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  TANDEM_CHECK_GE(args.points, 1);
  TANDEM_CHECK_GE(args.width, 1);
  TANDEM_CHECK_LE(args.width, ChannelAttentionArgs::kMostWidth);
  const int64_t rows = args.q.dim(0), size = args.q.dim(1);
  TANDEM_CHECK_EQ(rows % args.points, 0);
  TANDEM_CHECK_EQ(size % args.width, 0);
  for (const Tensor* t : {&args.q, &args.k, &args.v, &args.out})
    check_activations(ctx, *t, rows, size);
  if (rows > 0 && size > 0) ops_of(ctx).channel_attention(ctx, args);
}

void box_attention(Context& ctx, const BoxAttentionArgs& args) {
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_GE(args.head_dim, 1);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  TANDEM_CHECK_GE(args.indptr.dim(0), 1);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  for (const Tensor* t : {&args.q, &args.k, &args.v, &args.out})
    check_activations(ctx, *t, rows, size);
  check_indptr(args.indptr, args.indptr.dim(0) - 1, rows);
  check_matrix_there(ctx, args.boxes, rows, 4);
  TANDEM_CHECK(args.boxes.contiguous() && args.indptr.device() == ctx.device());
  if (rows == 0 || size == 0) return;
  for (const PositionBias* bias : {&args.bias, &args.across, &args.down}) {
    TANDEM_CHECK(!bias->values.empty());
    check_bias(ctx, *bias, args.num_heads);
  }
  ops_of(ctx).box_attention(ctx, args);
}

void bucket_attention(Context& ctx, const BucketAttentionArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  TANDEM_CHECK_EQ(s.num_heads, int64_t{args.num_heads});
  TANDEM_CHECK_EQ(s.head_dim, int64_t{args.head_dim});
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  TANDEM_CHECK_EQ(args.bucket_of.rank(), 1);
  TANDEM_CHECK_GE(args.bucket_of.dim(0), 1);
  TANDEM_CHECK_GE(args.buckets, 1);
  TANDEM_CHECK_GE(args.ahead, 0);
  TANDEM_CHECK_GE(args.behind, 0);
  const int64_t rows = args.q.dim(0), size = args.num_heads * s.head_dim;
  for (const Tensor* t : {&args.q, &args.out}) check_activations(ctx, *t, rows, size);
  TANDEM_CHECK_EQ(args.own_k.empty(), args.own_v.empty());
  if (!args.own_k.empty())
    for (const Tensor* t : {&args.own_k, &args.own_v}) check_activations(ctx, *t, rows, size);
  check_activations(ctx, args.biases, rows, int64_t{args.num_heads} * args.buckets);
  check_vector(args.bucket_of, args.bucket_of.dim(0), DType::kI32);
  TANDEM_CHECK(args.bucket_of.device() == ctx.device(), "a table of another device");
  check_range(args.bucket_of, 0, args.buckets);
  check_page_type(ctx, args.pages);
  if (args.plan == nullptr) check_tables(args, rows, s, /*causal=*/true);
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (rows > 0 && size > 0) ops_of(ctx).bucket_attention(ctx, args);
}

void merge_attention(Context& ctx, const MergeAttentionArgs& args) {
  TANDEM_CHECK_EQ(args.a.rank(), 2);
  TANDEM_CHECK_EQ(args.a_log_sums.rank(), 2);
  const int64_t rows = args.a.dim(0), size = args.a.dim(1), heads = args.a_log_sums.dim(1);
  for (const Tensor* t : {&args.a, &args.b, &args.out}) check_activations(ctx, *t, rows, size);
  for (const Tensor* t : {&args.a_log_sums, &args.b_log_sums})
    check_matrix_there(ctx, *t, rows, heads);
  if (rows == 0 || size == 0) return;
  TANDEM_CHECK_GE(heads, 1);
  TANDEM_CHECK_EQ(size % heads, 0);
  ops_of(ctx).merge_attention(ctx, args);
}

void attention_weights(Context& ctx, const AttentionWeightsArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  check_page_type(ctx, args.pages);
  TANDEM_CHECK_EQ(args.out.rank(), 2);
  if (args.kv_head >= 0) check_activations(ctx, args.q, args.out.dim(0), s.head_dim);
  check_matrix_there(ctx, args.out, args.out.dim(0), args.out.dim(1));
  TANDEM_CHECK_GE(args.keys, 1);
  TANDEM_CHECK_LE(args.out.dim(1), args.keys);
  check_vector(args.page_indices, (args.keys + s.block_size - 1) / s.block_size, DType::kI32);
  TANDEM_CHECK(args.page_indices.device() == ctx.device(), "a table of another device");
  check_range(args.page_indices, 0, s.num_blocks);
  TANDEM_CHECK_GE(args.kv_head, -1);
  TANDEM_CHECK_LT(int64_t{args.kv_head}, s.num_heads);
  if (args.out.size() > 0) ops_of(ctx).attention_weights(ctx, args);
}

}  // namespace tandem::ops
