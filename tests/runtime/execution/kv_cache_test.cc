// How many blocks the pool of the device has.
#include "runtime/execution/kv_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

// Whether the system has committed the page of an element.
bool is_committed(const Tensor& t, int64_t element) {
  const auto page = static_cast<uintptr_t>(getpagesize());
  const uintptr_t at = reinterpret_cast<uintptr_t>(t.data<float>() + element) / page * page;
  unsigned char resident = 0;
  EXPECT_EQ(mincore(reinterpret_cast<void*>(at), page, &resident), 0);
  return (resident & 1) != 0;
}

// The first blocks are there when the first request comes; the many others are not paid for.
TEST(KvCache, FirstBlocksAreCommitted) {
  Context ctx(2);
  KvCacheSpec spec{2, 4, 64, DType::kF32};
  KvCachePools pools(ctx, spec, kBlockSize, /*num_device_blocks=*/4096, /*num_host_blocks=*/4096);
  for (const KvPages& pages : pools.device().layers) {
    const int64_t floats = pages.data.size();
    ASSERT_EQ(floats * 4, int64_t{128} << 20);
    for (int64_t at = 0; at < (int64_t{16} << 20) / 4; at += 1 << 16)
      EXPECT_TRUE(is_committed(pages.data, at)) << at;
    EXPECT_FALSE(is_committed(pages.data, floats / 2));
    EXPECT_FALSE(is_committed(pages.data, floats - 1));
  }
  // Of a small pool nothing behind its end is written: AddressSanitizer would say so.
  const KvCachePools small(ctx, kSpec, kBlockSize, 3, 0);
}

}  // namespace
}  // namespace tandem
