// Attention over pages and over ragged sequences: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/kv_pages.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// A sequence with queries has at least one key, and a causal one at least as many as queries.
void check_sequences(const PagedAttentionArgs& args, int64_t sequences, int64_t block_size) {
  const int32_t* qo = args.qo_indptr.data<int32_t>();
  const int32_t* kv = args.kv_indptr.data<int32_t>();
  const int32_t* last = args.kv_last_page_len.data<int32_t>();
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t queries = qo[i + 1] - qo[i], pages = kv[i + 1] - kv[i];
    if (queries == 0) continue;
    TANDEM_CHECK_GE(pages, 1);
    TANDEM_CHECK_GE(int64_t{last[i]}, 1);
    TANDEM_CHECK_LE(int64_t{last[i]}, block_size);
    if (args.causal) TANDEM_CHECK_GE(block_size * (pages - 1) + last[i], queries);
  }
}

// What the CPU reads. A device reads its plan, which was made of them.
void check_tables(const PagedAttentionArgs& args, int64_t rows, const KvStrides& s) {
  TANDEM_CHECK_EQ(args.kv_last_page_len.rank(), 1);
  TANDEM_CHECK_EQ(args.kv_page_indices.rank(), 1);
  const int64_t sequences = args.kv_last_page_len.dim(0);
  check_vector(args.kv_last_page_len, sequences, DType::kI32);
  check_indptr(args.qo_indptr, sequences, rows);
  check_vector(args.kv_page_indices, args.kv_page_indices.dim(0), DType::kI32);
  check_indptr(args.kv_indptr, sequences, args.kv_page_indices.dim(0));
  check_range(args.kv_page_indices, 0, s.num_blocks);
  check_sequences(args, sequences, s.block_size);
}

}  // namespace

void paged_attention(Context& ctx, const PagedAttentionArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  TANDEM_CHECK_EQ(s.num_heads, int64_t{args.num_heads});
  TANDEM_CHECK_EQ(s.head_dim, int64_t{args.head_dim});
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  const int64_t rows = args.q.dim(0), size = s.num_heads * s.head_dim;
  check_activations(ctx, args.q, rows, size);
  check_activations(ctx, args.out, rows, size);
  TANDEM_CHECK(args.bias.values.empty() || args.causal, "a bias of cross-attention");
  check_bias(ctx, args.bias, args.num_heads);
  check_page_type(ctx, args.pages);
  if (args.plan == nullptr) check_tables(args, rows, s);
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (rows > 0 && size > 0) ops_of(ctx).paged_attention(ctx, args);
}

void ragged_attention(Context& ctx, const RaggedAttentionArgs& args) {
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_GE(args.head_dim, 1);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  check_activations(ctx, args.q, rows, size);
  check_activations(ctx, args.k, rows, size);
  check_activations(ctx, args.v, rows, size);
  check_activations(ctx, args.out, rows, size);
  check_bias(ctx, args.bias, args.num_heads);
  if (args.plan == nullptr) {
    TANDEM_CHECK_EQ(args.indptr.rank(), 1);
    TANDEM_CHECK_GE(args.indptr.dim(0), 1);
    check_indptr(args.indptr, args.indptr.dim(0) - 1, rows);
  }
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (rows > 0 && size > 0) ops_of(ctx).ragged_attention(ctx, args);
}

}  // namespace tandem::ops
