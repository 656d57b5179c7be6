// The CPU's packing of masks.
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void pack_bits(Context& ctx, const ops::PackBitsArgs& args) {
  const int32_t whole[] = {0, static_cast<int32_t>(args.x.dim(0))};
  const bool segmented = args.indptr.rank() > 0;
  const int32_t* at = segmented ? args.indptr.data<int32_t>() : whole;
  const int64_t segments = segmented ? args.indptr.dim(0) - 1 : 1;
  uint8_t* to = args.packed.data<uint8_t>();
  for (int64_t s = 0; s < segments; ++s) {
    const uint8_t* x = args.x.data<uint8_t>() + at[s];
    const int64_t count = at[s + 1] - at[s], bytes = ceil_div(count, 8);
    for_rows(ctx, bytes, 8, [&](int64_t i) {
      unsigned byte = 0;
      for (int64_t bit = 0; bit < 8 && 8 * i + bit < count; ++bit)
        byte |= (x[8 * i + bit] != 0 ? 1u : 0u) << bit;
      to[i] = static_cast<uint8_t>(byte);
    });
    to += bytes;
  }
}

}  // namespace tandem::cpu
