// A decoder's layers on the CPU: by the other ops.
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void decoder_step(Context& ctx, const ops::DecoderStepArgs& args) {
  ops::compose_decoder_step(ctx, args);
}

}  // namespace tandem::cpu
