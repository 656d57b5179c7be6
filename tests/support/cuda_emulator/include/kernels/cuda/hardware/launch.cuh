// Stands in for kernels/cuda/hardware/launch.cuh.
#pragma once

#include "cuda_emulator.h"

#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...) \
  TANDEM_LAUNCH_CLUSTERS(kernel, grid, block, 1, shared, stream __VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_LAUNCH_CLUSTERS(kernel, grid, block, cluster, shared, stream, ...)                \
  ::cuda_emulator::launch((grid), (block), (cluster), false, (shared), (stream),                 \
                          [=](const auto&... arguments) { kernel(arguments...); } __VA_OPT__(, ) \
                              __VA_ARGS__)
#define TANDEM_LAUNCH_COOPERATIVE(kernel, grid, block, shared, stream, ...)                      \
  ::cuda_emulator::launch((grid), (block), 1, true, (shared), (stream),                          \
                          [=](const auto&... arguments) { kernel(arguments...); } __VA_OPT__(, ) \
                              __VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) unsigned char* name = ::cuda_emulator::dynamic_shared()

namespace tandem::cuda {

inline void wait_for_earlier_kernels() { ::cuda_emulator::wait_for_earlier_kernels(); }

}  // namespace tandem::cuda
