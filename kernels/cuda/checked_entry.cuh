// The one kernel that is assembled where CUDA code is only checked (TANDEM_CUDA_CHECK includes this
// file everywhere): the assembler reads all kernels of a file, and makes code for this one.
#pragma once

extern "C" __global__ __attribute__((weak)) void tandem_checked_entry() {}
