// The static shared memory of kernels. A part of the scheduler.
#pragma once

#include <cstddef>

namespace cuda_emulator {

// Before a block: every __shared__ variable of the program, as this OS thread sees it, holds 0xFF.
// (They are megabytes: only those are filled that the block before may have written.)
void poison_static_shared();
// After a block of a kernel of this type. The first blocks of a kernel, and one in 64 later, are
// looked at to learn which variables it writes; a variable that it writes for the first time in
// between keeps its values until the next look.
void note_static_shared(const char* type);

// Whether all of it lies in one of them.
bool is_static_shared(const void* at, size_t bytes);

}  // namespace cuda_emulator
