// The CPU's copies of blocks. A task copies one slice of every block, in the order of the pairs, so
// that a block may be written and then read.
#include <cstring>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void copy_blocks(Context& ctx, const ops::CopyBlocksArgs& args) {
  int64_t block = static_cast<int64_t>(size_of(args.src.dtype()));
  for (int i = 1; i < args.src.rank(); ++i) block *= args.src.dim(i);
  const int32_t* pairs = args.pairs.data<int32_t>();
  const std::byte* src = static_cast<const std::byte*>(args.src.raw());
  std::byte* dst = static_cast<std::byte*>(args.dst.raw());
  auto job = [&](int64_t slice, int) {
    const int64_t begin = slice * kTaskBytes, bytes = std::min(kTaskBytes, block - begin);
    for (int64_t i = 0; i < args.pairs.dim(0); i += 2) {
      const std::byte* from = src + pairs[i] * block + begin;
      std::byte* to = dst + pairs[i + 1] * block + begin;
      if (from != to) std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  };
  run_tasks(ctx, ceil_div(block, kTaskBytes), job);
}

}  // namespace tandem::cpu
