#include "kernels/core/activation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/reference.h"
#include "tests/kernels/kernels_test_util.h"
#include "tests/support/files/files.h"

namespace tandem::activation_test {
namespace {

using testing::Random;

class ActivationTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(ActivationTest);

TEST_P(ActivationTest, MatchesTheReference) {
  std::vector<float> x;
  for (float v = -20; v <= 20; v += 0.00371f) x.push_back(v);
  for (float v : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e-6f, -1e-6f, 90.0f, -90.0f, 1e4f, -1e4f})
    x.push_back(v);
  for (int a = 0; a < kNumActivations; ++a) {
    const auto activation = static_cast<Activation>(a);
    std::vector<float> y = x;
    cpu::isa_kernels().activate(activation, y.data(), static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::activate(activation, x[i]);
      ASSERT_NEAR(y[i], expected, 1.2e-7 + 2.4e-7 * std::abs(expected))
          << "activation " << a << " of " << x[i];
    }
  }
}

TEST_P(ActivationTest, BitsDoNotDependOnThePosition) {
  Random random;
  std::vector<float> x(100);
  for (float& v : x) v = 3 * random.normal();
  for (int a = 0; a < kNumActivations; ++a) {
    std::vector<float> all = x;
    cpu::isa_kernels().activate(static_cast<Activation>(a), all.data(), 100);
    for (size_t i = 0; i < x.size(); ++i) {
      float alone = x[i];
      cpu::isa_kernels().activate(static_cast<Activation>(a), &alone, 1);
      ASSERT_EQ(std::memcmp(&alone, &all[i], sizeof(float)), 0) << x[i];
    }
  }
}

TEST_P(ActivationTest, NanStaysNan) {
  for (int a = 0; a < kNumActivations; ++a) {
    float x = std::nanf("");
    cpu::isa_kernels().activate(static_cast<Activation>(a), &x, 1);
    EXPECT_TRUE(std::isnan(x)) << a;
  }
}

// Values that PyTorch computed: scripts/goldens/make_activations.py.
TEST_P(ActivationTest, MatchesPyTorch) {
  const nlohmann::json data = load_json(test::test_root() / "tests/data/activations.json");
  const auto x = data.at("inputs").get<std::vector<float>>();
  for (const auto& [name, values] : data.at("values").items()) {
    std::vector<float> y = x;
    cpu::isa_kernels().activate(activation_from_name(name), y.data(),
                                static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = values.at(i).get<double>();
      // 1 + erf and the like lose bits there, which x multiplies.
      const double lost = 3e-7 * (1 + std::min(10.0f, std::abs(x[i])));
      ASSERT_NEAR(y[i], expected, lost + 4.8e-7 * std::abs(expected)) << name << " of " << x[i];
    }
  }
}

TEST(Activation, Names) {
  EXPECT_EQ(activation_from_name("gelu"), Activation::kGelu);
  EXPECT_EQ(activation_from_name("gelu_new"), Activation::kGeluTanh);
  EXPECT_EQ(activation_from_name("swish"), Activation::kSilu);
  for (const char* name : {"swoosh", "prelu"}) try {
      activation_from_name(name);
      FAIL();
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "activation_function");
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos);
    }
  EXPECT_TRUE(is_learned_activation("xielu"));
  EXPECT_FALSE(is_learned_activation("relu"));
}

}  // namespace
}  // namespace tandem::activation_test
