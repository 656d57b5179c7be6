// Runs the kernels' tests on a GPU: exit status 77 where there is none, which is not a success.
// Real kernels only; the emulator's tests (tests/CMakeLists.txt) have gtest's own main.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::printf("skipped, nothing was run: no GPU (%s)\n",
                error != cudaSuccess ? cudaGetErrorString(error) : "none is there");
    return 77;
  }
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess)
    std::printf("on %s, compute capability %d.%d\n", properties.name, properties.major,
                properties.minor);
  return RUN_ALL_TESTS();
}
