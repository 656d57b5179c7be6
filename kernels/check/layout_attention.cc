// Attention over FlashInfer's layouts, the merging of states: checks, dispatch; cascades.
#include <string>

#include "base/error.h"
#include "kernels/layouts/layout_checks.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// Queries [n, heads, dim]; returns how many requests they have.
int64_t check_queries(const Context& ctx, const std::string& name, const Tensor& q,
                      const Tensor& qo_indptr, const std::string& prefix = {}) {
  layouts::check_rows(ctx, name, q, {-1, -1, -1});
  layouts::check_widths(name, q, 1);
  const int64_t requests = layouts::check_offsets(prefix + "qo_indptr", qo_indptr);
  layouts::check_end(prefix + "qo_indptr", qo_indptr, q.dim(0), name);
  return requests;
}

// The heads and widths of keys, of the argument `name`.
void check_heads(const std::string& name, int64_t heads, int64_t head_dim, const Tensor& q) {
  if (heads < 1 || q.dim(1) % heads != 0)
    layouts::refuse(name, "has " + std::to_string(heads) + " heads, q has " +
                              std::to_string(q.dim(1)) + ": no multiple");
  if (head_dim != q.dim(2))
    layouts::refuse(
        name, "has heads of " + std::to_string(head_dim) + ", q of " + std::to_string(q.dim(2)));
}

void check_ragged_keys(Context& ctx, const AttendRaggedArgs& args, int64_t requests) {
  const int of_rows = args.layout == KvLayout::kNHD ? 0 : 1, of_heads = 1 - of_rows;
  layouts::check_keys(ctx, "k", args.k, {-1, -1, -1});
  check_heads("k", args.k.dim(of_heads), args.k.dim(2), args.q);
  layouts::check_keys(ctx, "v", args.v, {args.k.dim(0), args.k.dim(1), -1});
  layouts::check_type("v", args.v, {args.k.dtype()});
  layouts::check_widths("v", args.v, 2);
  layouts::check_requests("kv_indptr", layouts::check_offsets("kv_indptr", args.kv_indptr),
                          requests);
  layouts::check_end("kv_indptr", args.kv_indptr, args.k.dim(of_rows), "k");
}

const std::string& cache_name(const PagedKvCache& cache) {
  static const std::string kJoint = "kv_cache", kKeys = "k_cache";
  return cache.kv_cache.rank() > 0 ? kJoint : kKeys;
}

}  // namespace

void attend_ragged(Context& ctx, const AttendRaggedArgs& args) {
  const int64_t requests = check_queries(ctx, "q", args.q, args.qo_indptr);
  check_ragged_keys(ctx, args, requests);
  layouts::check_scores(ctx, strided(args));
  layouts::check_outputs(ctx, args.out, args.lse, args.q.dim(0), args.q.dim(1), args.v.dim(2));
  if (args.q.dim(0) > 0) ops_of(ctx).attend_ragged(ctx, args);
}

void attend_pages(Context& ctx, const AttendPagesArgs& args) {
  const int64_t requests = check_queries(ctx, "q", args.q, args.qo_indptr);
  const CacheSides sides = layouts::check_cache(ctx, args.cache);
  check_heads(cache_name(args.cache), sides.kv_heads, sides.k.dim, args.q);
  layouts::check_requests("kv_indptr", layouts::check_table(args.table, sides), requests);
  layouts::check_scores(ctx, strided(args));
  layouts::check_outputs(ctx, args.out, args.lse, args.q.dim(0), args.q.dim(1), args.q.dim(2));
  if (args.q.dim(0) > 0) ops_of(ctx).attend_pages(ctx, args);
}

void attend_latent(Context& ctx, const AttendLatentArgs& args) {
  const int64_t requests = check_queries(ctx, "q_nope", args.q_nope, args.qo_indptr);
  layouts::check_rows(ctx, "q_pe", args.q_pe, {args.q_nope.dim(0), args.q_nope.dim(1), -1});
  const CacheSides sides = layouts::check_cache(
      ctx, args.cache, {args.q_nope.dim(2), args.q_pe.dim(2), "q_nope", "q_pe"});
  layouts::check_requests("kv_indptr", layouts::check_table(args.table, sides), requests);
  layouts::check_scores(ctx, strided(args));
  layouts::check_outputs(ctx, args.out, args.lse, args.q_nope.dim(0), args.q_nope.dim(1),
                         args.q_nope.dim(2));
  if (args.q_nope.dim(0) > 0) ops_of(ctx).attend_latent(ctx, args);
}

void merge_states(Context& ctx, const MergeStatesArgs& args) {
  layouts::check_rows(ctx, "v", args.v, {-1, -1, -1, -1});
  const Shape& shape = args.v.shape();
  if (shape[0] < 1 || shape[2] < 1 || shape[3] < 1) layouts::refuse("v", "is " + to_string(shape));
  layouts::check_data(ctx, "s", args.s, {shape[0], shape[1], shape[2]}, {DType::kF32});
  layouts::check_outputs(ctx, args.out, args.lse, shape[1], shape[2], shape[3]);
  if (shape[1] > 0) ops_of(ctx).merge_states(ctx, args);
}

// All levels are checked before one is computed.
void attend_cascade(Context& ctx, const AttendCascadeArgs& args) {
  if (args.levels.empty()) layouts::refuse("levels", "are none: a cascade has at least one");
  const CacheSides sides = layouts::check_cache(ctx, args.cache);
  for (size_t i = 0; i < args.levels.size(); ++i) {
    const std::string prefix = "level" + std::to_string(i) + ".";
    const CascadeLevel& level = args.levels[i];
    const int64_t groups = check_queries(ctx, "q", args.q, level.qo_indptr, prefix);
    if (i == 0) check_heads(cache_name(args.cache), sides.kv_heads, sides.k.dim, args.q);
    layouts::check_requests(prefix + "kv_indptr", layouts::check_table(level.table, sides, prefix),
                            groups);
  }
  const int64_t rows = args.q.dim(0), heads = args.q.dim(1), dim = args.q.dim(2);
  layouts::check_outputs(ctx, args.out, args.lse, rows, heads, dim);
  const auto count = static_cast<int64_t>(args.levels.size());
  const Tensor states = ctx.make({count * rows, heads, dim});
  const Tensor sums = ctx.make({count * rows, heads}, DType::kF32);
  for (int64_t i = 0; i < count; ++i) {
    const CascadeLevel& level = args.levels[static_cast<size_t>(i)];
    AttendPagesArgs one;
    one.q = args.q;
    one.qo_indptr = level.qo_indptr;
    one.cache = args.cache;
    one.table = level.table;
    one.scores = {args.scale, args.soft_cap, args.causal && i + 1 == count};
    one.out = states.rows(i * rows, (i + 1) * rows);
    one.lse = sums.rows(i * rows, (i + 1) * rows);
    attend_pages(ctx, one);
  }
  merge_states(ctx, {states.reshape({count, rows, heads, dim}), sums.reshape({count, rows, heads}),
                     args.out, args.lse});
}

}  // namespace tandem::ops
