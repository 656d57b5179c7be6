// How many blocks a pool gets.
#include "runtime/execution/kv_cache.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

KvCacheSpec spec() {
  KvCacheSpec spec;
  spec.num_layers = 2;
  spec.num_heads = 4;
  spec.head_dim = 8;
  spec.dtype = DType::kF32;
  return spec;
}

TEST(DeviceBlocks, AreBoundedByMemoryAndByUse) {
  const size_t block = spec().block_bytes(16);
  EXPECT_EQ(device_blocks_for(spec(), 16, 100 * block, 8, 1024), 100);
  EXPECT_EQ(device_blocks_for(spec(), 16, 100 * block + block - 1, 8, 1024), 100);
  // 2 requests of 33 tokens on each side: 3 blocks for each side, and one more.
  EXPECT_EQ(device_blocks_for(spec(), 16, 100 * block, 2, 33), 14);
  EXPECT_EQ(device_blocks_for(spec(), 16, block - 1, 2, 33), 0);
}

// Positions 0 means "not limited": memory alone bounds the pool then.
TEST(DeviceBlocks, UnlimitedPositionsUseTheMemory) {
  const size_t block = spec().block_bytes(16);
  EXPECT_EQ(device_blocks_for(spec(), 16, 1000 * block, 2, 0), 1000);
}

}  // namespace
}  // namespace tandem
