// TANDEM_SM90(…): an instruction of sm_90. What is compiled for older devices stops there when it
// runs, so the host chooses.
#pragma once

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TANDEM_SM90(...) asm volatile(__VA_ARGS__)
#else
#define TANDEM_SM90(...) __trap()
#endif
