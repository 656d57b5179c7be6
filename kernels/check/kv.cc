// Keys and values to their pages, copies of whole blocks: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/check/check_write.h"
#include "kernels/kv_pages.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void write_kv(Context& ctx, const WriteKvArgs& args) {
  check_write(ctx, args);
  if (args.k.dim(0) > 0) ops_of(ctx).write_kv(ctx, args);
}

void copy_blocks(Context& ctx, const CopyBlocksArgs& args) {
  TANDEM_CHECK_GE(args.src.rank(), 1);
  TANDEM_CHECK_EQ(args.src.rank(), args.dst.rank());
  for (int i = 1; i < args.src.rank(); ++i) TANDEM_CHECK_EQ(args.src.dim(i), args.dst.dim(i));
  TANDEM_CHECK(args.src.dtype() == args.dst.dtype());
  TANDEM_CHECK(args.src.contiguous() && args.dst.contiguous());
  TANDEM_CHECK_EQ(args.pairs.rank(), 1);
  check_vector(args.pairs, args.pairs.dim(0), DType::kI32);
  TANDEM_CHECK_EQ(args.pairs.dim(0) % 2, 0);
  TANDEM_CHECK(args.pairs.device() == Device::kCpu, "the host says what is copied");
  const int32_t* pairs = args.pairs.data<int32_t>();
  for (int64_t i = 0; i < args.pairs.dim(0); i += 2) {
    TANDEM_CHECK_GE(pairs[i], 0);
    TANDEM_CHECK_LT(int64_t{pairs[i]}, args.src.dim(0));
    TANDEM_CHECK_GE(pairs[i + 1], 0);
    TANDEM_CHECK_LT(int64_t{pairs[i + 1]}, args.dst.dim(0));
  }
  if (args.pairs.dim(0) > 0) ops_of(ctx).copy_blocks(ctx, args);
}

}  // namespace tandem::ops
