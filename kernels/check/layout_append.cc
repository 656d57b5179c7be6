// Rows that are appended to pages by request and position: checks, dispatch.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/layouts/append_slots.h"
#include "kernels/layouts/layout_checks.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// Each row has a place among its request's pages, no two the same.
void check_places(const Tensor& batch_indices, const Tensor& positions, const KvPageTable& table,
                  const CacheSides& sides, int64_t rows) {
  const int64_t requests = layouts::check_table(table, sides);
  const int32_t* batch = layouts::check_integers("batch_indices", batch_indices, rows);
  const int32_t* position = layouts::check_integers("positions", positions, rows);
  const int32_t* at = table.kv_indptr.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i) {
    if (batch[i] < 0 || batch[i] >= requests)
      layouts::refuse("batch_indices", "is " + std::to_string(batch[i]) + layouts::at_index(i) +
                                           "; there are " + std::to_string(requests) + " requests");
    const int64_t pages = at[batch[i] + 1] - at[batch[i]];
    if (position[i] < 0 || position[i] >= pages * sides.page_size)
      layouts::refuse("positions", "is " + std::to_string(position[i]) + layouts::at_index(i) +
                                       ", beyond the " + std::to_string(pages) +
                                       " pages of request " + std::to_string(batch[i]));
  }
  std::vector<int64_t> slots = append_slots(batch_indices, positions, table, sides.page_size);
  std::vector<int64_t> sorted = slots;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return;
  const auto first = std::find(slots.begin(), slots.end(), *twice);
  const auto second = std::find(first + 1, slots.end(), *twice);
  layouts::refuse("positions", "is " + std::to_string(position[second - slots.begin()]) +
                                   layouts::at_index(second - slots.begin()) +
                                   ", where the row at index " +
                                   std::to_string(first - slots.begin()) + " goes too");
}

}  // namespace

void append_pages(Context& ctx, const AppendPagesArgs& args) {
  const CacheSides sides = layouts::check_cache(ctx, args.cache);
  layouts::check_rows(ctx, "append_key", args.append_key, {-1, sides.kv_heads, sides.k.dim});
  const int64_t rows = args.append_key.dim(0);
  layouts::check_rows(ctx, "append_value", args.append_value, {rows, sides.kv_heads, sides.v.dim});
  check_places(args.batch_indices, args.positions, args.table, sides, rows);
  if (rows > 0) ops_of(ctx).append_pages(ctx, args);
}

void append_latent(Context& ctx, const AppendLatentArgs& args) {
  layouts::check_rows(ctx, "append_ckv", args.append_ckv, {-1, -1});
  const int64_t rows = args.append_ckv.dim(0);
  layouts::check_rows(ctx, "append_kpe", args.append_kpe, {rows, -1});
  const CacheSides sides = layouts::check_cache(
      ctx, args.cache,
      {args.append_ckv.dim(1), args.append_kpe.dim(1), "append_ckv", "append_kpe"});
  check_places(args.batch_indices, args.positions, args.table, sides, rows);
  if (rows > 0) ops_of(ctx).append_latent(ctx, args);
}

}  // namespace tandem::ops
