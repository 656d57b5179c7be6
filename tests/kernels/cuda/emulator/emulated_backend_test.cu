// A backend that cannot be made says why, and leaves nothing behind.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <string>

#include "base/error.h"
#include "kernels/cuda/backend.h"
#include "tests/support/variable.h"

namespace tandem::cuda {
namespace {

std::string error_of_making() {
  try {
    const CudaBackend backend(0);
  } catch (const InputError& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kResource);
    return e.what();
  }
  return "";
}

// What is left behind would use up the emulator's memory of either kind, sooner or later.
TEST(CudaBackend, WithoutMemoryForItsWorkspace) {
  const size_t before = cuda_emulator::allocated_bytes();
  for (int i = 0; i < 3; ++i) {
    const testing::Variable little("TANDEM_EMULATOR_MEMORY",
                                   std::to_string(before + (size_t{16} << 20)));
    EXPECT_NE(error_of_making().find("has no 33554432 bytes left"), std::string::npos);
    EXPECT_EQ(cuda_emulator::allocated_bytes(), before);
  }
  EXPECT_EQ(error_of_making(), "");
  EXPECT_EQ(cuda_emulator::allocated_bytes(), before);
}

TEST(CudaBackend, WithoutPageLockedMemory) {
  const size_t before = cuda_emulator::allocated_bytes();
  const size_t pinned = cuda_emulator::pinned_bytes();
  {
    const testing::Variable little("TANDEM_EMULATOR_PINNED_MEMORY",
                                   std::to_string(pinned + (size_t{10} << 20)));
    EXPECT_NE(error_of_making().find("page-locked host memory"), std::string::npos);
  }
  EXPECT_EQ(cuda_emulator::pinned_bytes(), pinned);
  {
    const testing::Variable little("TANDEM_EMULATOR_MEMORY",
                                   std::to_string(before + (size_t{16} << 20)));
    EXPECT_NE(error_of_making(), "");
  }
  EXPECT_EQ(cuda_emulator::pinned_bytes(), pinned);
  EXPECT_EQ(error_of_making(), "");
  EXPECT_EQ(cuda_emulator::pinned_bytes(), pinned);
}

}  // namespace
}  // namespace tandem::cuda
