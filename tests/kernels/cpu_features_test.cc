// The choice of a CPU level.
#include "kernels/core/cpu_features.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem {
namespace {

TEST(CpuFeatures, NamesAreReadBack) {
  for (CpuIsa isa : testing::available_isas()) EXPECT_EQ(cpu_isa_from_name(name_of(isa)), isa);
}

TEST(CpuFeatures, UnknownNamesAndMissingLevelsAreErrors) {
  try {
    cpu_isa_from_name("avx1024");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.param(), "TANDEM_CPU_ISA");
    EXPECT_NE(std::string(e.what()).find("avx1024"), std::string::npos);
  }
  for (const auto& [isa, name] :
       {std::pair{CpuIsa::kAvx512Bf16, "avx512_bf16"}, {CpuIsa::kAmx, "amx"}})
    if (best_cpu_isa() < isa) {
      EXPECT_THROW(cpu_isa_from_name(name), InputError);
    }
}

}  // namespace
}  // namespace tandem
