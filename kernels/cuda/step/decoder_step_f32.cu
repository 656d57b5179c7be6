// The kernel of a decoder's step in f32.
#include "kernels/cuda/step/step_kernel.cuh"

namespace tandem::cuda::step {

void launch_f32(const Params& p, int blocks, int shared, LaunchStream stream) {
  launch_type<F32>(p, blocks, shared, stream);
}

}  // namespace tandem::cuda::step
