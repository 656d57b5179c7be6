// The CPU's rotary positions.
#include "kernels/cpu/rotary.h"

#include <cmath>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void rotary_angles(Context& ctx, const ops::RotaryAnglesArgs& args) {
  const int32_t* positions = args.positions.data<int32_t>();
  const float* frequencies = args.frequencies.data<float>();
  const int64_t pairs = args.frequencies.dim(0);
  for_rows(ctx, args.positions.dim(0), pairs * 64, [&](int64_t t) {
    float* out = args.out.row<float>(t);
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(positions[t]) * frequencies[i];
      out[i] = std::cos(angle);
      out[pairs + i] = std::sin(angle);
    }
  });
}

void rotary(Context& ctx, const ops::RotaryArgs& args) {
  for_rows(ctx, args.x.dim(0), args.x.dim(1) * 8, [&](int64_t t) {
    const TokenAngles angles = angles_of(args.rotary, t);
    float* head = args.x.row<float>(t);
    for (int h = 0; h < args.num_heads; ++h, head += args.head_dim) turn_head(head, angles, head);
  });
}

}  // namespace tandem::cpu
