// Noise against torch's: torch.randn(n) of a generator with that seed (torch 2.15).
#include "runtime/media/sound/seeded_noise.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(SeededNoise, IsTorchs) {
  const std::vector<float> whole = seeded_noise(16, 0);
  const float first[] = {-1.1258f, -1.1524f, -0.2506f, -0.4339f, 0.8487f, 0.6920f,
                         -0.3160f, -2.1152f, 0.3223f,  -1.2633f, 0.3500f, 0.3081f,
                         0.1198f,  1.2377f,  1.1168f,  -0.2473f};
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(whole[i], first[i], 6e-5) << i;
  // The last 16 of a length that is no multiple of 16 are drawn once more.
  const std::vector<float> more = seeded_noise(357, 357);
  EXPECT_NEAR(more[0], 0.493403f, 2e-6);
  EXPECT_NEAR(more[17], -0.484991f, 2e-6);
  EXPECT_NEAR(more[340], 0.359863f, 2e-6);
  EXPECT_NEAR(more[341], 0.163483f, 2e-6);
  EXPECT_NEAR(more[356], -0.110265f, 2e-6);
}

}  // namespace
}  // namespace tandem
