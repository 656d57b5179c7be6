// The CPU's gather of rows.
#include <cstring>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void gather_rows(Context& ctx, const ops::GatherRowsArgs& args) {
  const int32_t* rows = args.rows.data<int32_t>();
  const size_t bytes = static_cast<size_t>(args.x.dim(1)) * sizeof(float);
  for_rows(ctx, args.rows.dim(0), static_cast<int64_t>(bytes) * 2, [&](int64_t i) {
    std::memcpy(args.out.row<float>(i), args.x.row<float>(rows[i]), bytes);
  });
}

}  // namespace tandem::cpu
