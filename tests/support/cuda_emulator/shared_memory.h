// The static shared memory of kernels. A part of the scheduler.
#pragma once

namespace cuda_emulator {

// Fills every __shared__ variable of the program, as this OS thread sees it, with 0xFF.
void poison_static_shared();

}  // namespace cuda_emulator
