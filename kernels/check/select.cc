// Log-sum, processors and the best of each row; ranks: checks, dispatch.
#include <cstring>

#include "kernels/check/check_args.h"
#include "kernels/check/check_chosen.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// On the host only: what a device is given was checked by whoever made it.
void check_edits(const SelectArgs& args, int64_t rows, int64_t size) {
  check_indptr(args.edit_indptr, rows, args.edited.dim(0));
  if (args.edits.empty() || args.edits.device() != Device::kCpu) return;
  for (int64_t i = 0; i < args.edits.dim(0); ++i) {
    const int32_t* edit = args.edits.row<int32_t>(i);
    TANDEM_CHECK_GE(edit[0], 0);
    TANDEM_CHECK_LT(int64_t{edit[0]}, size);
    TANDEM_CHECK_GE(edit[1], 0);
    TANDEM_CHECK_LE(edit[1], static_cast<int32_t>(LogitEdit::kFavour));
  }
}

void check_histories(const SelectArgs& args, int64_t rows) {
  if (args.histories.empty()) return;
  const int64_t dims[] = {rows, kRowHistoryInts};
  check_shape_and_type(args.histories, dims, 2, DType::kI32);
  TANDEM_CHECK(args.histories.contiguous());
  TANDEM_CHECK_EQ(args.tokens.rank(), 2);
  const int64_t memory[] = {args.tokens.dim(0), args.tokens.dim(1)};
  check_shape_and_type(args.tokens, memory, 2, DType::kI32);
  if (args.histories.device() != Device::kCpu || args.edit_indptr.device() != Device::kCpu) return;
  const int32_t* edits = args.edit_indptr.data<int32_t>();
  for (int64_t i = 0; i < rows; ++i) {
    RowHistory h;
    std::memcpy(static_cast<void*>(&h), args.histories.row<int32_t>(i), sizeof(h));
    TANDEM_CHECK_GE(h.edits_before, 0);
    TANDEM_CHECK_LE(h.edits_before, edits[i + 1] - edits[i]);
    TANDEM_CHECK_GE(h.ngram_size, 0);
    TANDEM_CHECK_GE(h.length, 0);
    if (h.length == 0) continue;
    TANDEM_CHECK_LE(int64_t{h.length}, memory[1]);
    TANDEM_CHECK_GE(h.place, 0);
    TANDEM_CHECK_LT(int64_t{h.place}, memory[0]);
    TANDEM_CHECK_GE(h.first_output, 0);
  }
}

void check_masks(const SelectArgs& args, int64_t rows, int64_t size) {
  if (args.masks.empty()) return;
  TANDEM_CHECK_EQ(args.masks.rank(), 2);
  const int64_t dims[] = {args.masks.dim(0), (size + 31) / 32};
  check_shape_and_type(args.masks, dims, 2, DType::kI32);
  TANDEM_CHECK(args.masks.contiguous());
  check_vector(args.mask_rows, rows, DType::kI32);
  check_range(args.mask_rows, -1, args.masks.dim(0));
}

}  // namespace

void select(Context& ctx, const SelectArgs& args) {
  TANDEM_CHECK_EQ(args.logits.rank(), 2);
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1);
  check_matrix(args.logits, rows, size);
  TANDEM_CHECK_GE(args.k, 1);
  TANDEM_CHECK_LE(args.k, kMaxSelect);
  TANDEM_CHECK_LE(int64_t{args.k}, size);
  check_vector(args.flags, rows, DType::kI32);
  TANDEM_CHECK_EQ(args.edited.rank(), 1);
  const int64_t edits[] = {args.edited.dim(0), 3};
  check_shape_and_type(args.edits, edits, 2, DType::kI32);
  check_vector(args.edited, edits[0], DType::kF32);
  check_edits(args, rows, size);
  check_vector(args.log_sums, rows, DType::kF32);
  check_chosen(args.ids, args.values, args.best, rows, args.k);
  check_histories(args, rows);
  check_masks(args, rows, size);
  if (rows > 0) ops_of(ctx).select(ctx, args);
}

void rank_tokens(Context& ctx, const RankTokensArgs& args) {
  TANDEM_CHECK_EQ(args.logits.rank(), 2);
  TANDEM_CHECK_EQ(args.chosen.rank(), 1);
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1);
  check_matrix(args.logits, rows, size);
  check_vector(args.rows, rows, DType::kI32);
  check_range(args.rows, 0, args.chosen.dim(0));
  check_vector(args.chosen, args.chosen.dim(0), DType::kI32);
  check_vector(args.values, rows, DType::kF32);
  check_vector(args.ranks, rows, DType::kI32);
  if (args.logits.device() == Device::kCpu)
    for (int64_t i = 0; i < rows; ++i) {
      const int32_t id = args.chosen.data<int32_t>()[args.rows.data<int32_t>()[i]];
      TANDEM_CHECK_GE(id, 0);
      TANDEM_CHECK_LT(int64_t{id}, size);
    }
  if (rows > 0) ops_of(ctx).rank_tokens(ctx, args);
}

}  // namespace tandem::ops
