// The choice of a CPU level.
#include "kernels/core/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::cpu_features_test {
namespace {

TEST(CpuFeatures, LevelsRiseToTheBest) {
  ASSERT_FALSE(cpu_isas().empty());
  EXPECT_EQ(cpu_isas().front(), CpuIsa::kGeneric);
  EXPECT_EQ(cpu_isas().back(), best_cpu_isa());
  EXPECT_TRUE(std::ranges::is_sorted(cpu_isas()));
}

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
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni, CpuIsa::kAvx512Bf16,
                           CpuIsa::kAmx, CpuIsa::kNeon, CpuIsa::kNeonDot, CpuIsa::kNeonBf16}) {
    if (std::ranges::find(cpu_isas(), isa) != cpu_isas().end()) continue;
    try {
      cpu_isa_from_name(name_of(isa));
      ADD_FAILURE() << name_of(isa);
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("its best is"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem::cpu_features_test
