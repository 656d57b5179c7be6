// The static shared memory of kernels. A part of the scheduler.
#pragma once

#include <cstddef>

namespace cuda_emulator {

// Fills every __shared__ variable of the program, as this OS thread sees it, with 0xFF.
void poison_static_shared();

// Whether all of it lies in one of them.
bool is_static_shared(const void* at, size_t bytes);

}  // namespace cuda_emulator
