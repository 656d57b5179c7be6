// How many blocks the pool of the device has.
#include "runtime/execution/kv_cache.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr KvCacheSpec kSpec{2, 3, 4, DType::kF32};
constexpr int kBlockSize = 16, kRequests = 5;

int blocks(size_t fit, std::optional<int> encoder, std::optional<int> decoder) {
  ModelLimits limits;
  limits.encoder_positions = encoder;
  limits.decoder_positions = decoder;
  return device_blocks_for(kSpec, kBlockSize, fit * kSpec.block_bytes(kBlockSize), kRequests,
                           limits);
}

TEST(KvCache, AsManyBlocksAsRequestsCanUse) {
  EXPECT_EQ(blocks(1000, 32, 32), kRequests * (2 + 2 + 1));
  EXPECT_EQ(blocks(1000, 33, 16), kRequests * (3 + 1 + 1));  // the sides have limits of their own
  EXPECT_EQ(blocks(7, 32, 32), 7);
  EXPECT_EQ(blocks(0, 32, 32), 0);
}

// Without a limit a sequence may take all that there is; it used to count as no positions.
TEST(KvCache, WithoutALimitAsManyAsFit) {
  EXPECT_EQ(blocks(1000, std::nullopt, 32), 1000);
  EXPECT_EQ(blocks(1000, 32, std::nullopt), 1000);
  EXPECT_EQ(blocks(1000, std::nullopt, std::nullopt), 1000);
}

// A draft model's blocks are as many, and count.
TEST(KvCache, HoldsBlocksOfBothModels) {
  const size_t own = kSpec.block_bytes(kBlockSize);
  EXPECT_EQ(device_blocks_for(kSpec, kBlockSize, 12 * own, kRequests, {}, own / 2), 8);
}

}  // namespace
}  // namespace tandem
