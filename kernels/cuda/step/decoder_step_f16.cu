// The kernel of a decoder's step in f16.
#include "kernels/cuda/step/step_kernel.cuh"

namespace tandem::cuda::step {

void launch_f16(const Params& p, int blocks, int shared, LaunchStream stream) {
  launch_type<F16>(p, blocks, shared, stream);
}

}  // namespace tandem::cuda::step
