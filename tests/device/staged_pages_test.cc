// Pages on their way through the host's memory: out of a device and into another one, over blocks
// in any order, while the staged ones are used again at once.
#include "runtime/execution/ranks/staged_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/plugin.h"
#include "runtime/execution/kv_cache.h"
#include "tests/support/device_pages.h"

namespace tandem::staged_pages_test {
namespace {

constexpr int kBlocks = 24, kBlockSize = 4;

KvCacheSpec spec_of(DType dtype) {
  return {.num_layers = 3, .num_heads = 2, .head_dim = 8, .dtype = dtype};
}

class Device {
 public:
  explicit Device(const KvCacheSpec& spec)
      : ctx(1, cuda_plugin()->make_backend(0), DType::kF32),
        pools(ctx, spec, kBlockSize, kBlocks, 0),
        staged(ctx, spec) {}

  Context ctx;
  KvCachePools pools;
  StagedPages staged;
};

class StagedPagesOf : public ::testing::TestWithParam<DType> {};

TEST_P(StagedPagesOf, BlocksArriveAsTheyWere) {
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const KvCacheSpec spec = spec_of(GetParam());
  Device from(spec), to(spec);
  testing::fill_pages(from.ctx, from.pools.device(), random);
  std::vector<int32_t> order(kBlocks);
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < 40; ++round) {
    // Some blocks one way, to others; two takes follow each other without a wait of the test's.
    std::vector<int32_t> sent, taken;
    for (int half = 0; half < 2; ++half) {
      std::shuffle(order.begin(), order.end(), random);
      const size_t count = random() % 5;
      const std::vector<int32_t> blocks(order.begin(), order.begin() + static_cast<long>(count));
      const KvCache& out = from.staged.copy_out(from.pools.device(), blocks);
      const KvCache& in = to.staged.room(static_cast<int>(count), kBlockSize);
      std::vector<int32_t> targets;
      for (size_t i = 0; i < count; ++i) {
        const std::vector<Tensor> sources = testing::page_tensors(out),
                                  staged = testing::page_tensors(in);
        for (size_t t = 0; t < sources.size(); ++t) {
          const std::string bytes = testing::page_bytes(sources[t], blocks[i]);
          std::memcpy(static_cast<char*>(staged[t].raw()) + i * bytes.size(), bytes.data(),
                      bytes.size());
        }
        targets.push_back(static_cast<int32_t>(half * kBlocks / 2 + static_cast<int>(i)));
      }
      to.staged.copy_in(to.pools.device(), targets);
      sent.insert(sent.end(), blocks.begin(), blocks.end());
      taken.insert(taken.end(), targets.begin(), targets.end());
    }
    const std::vector<Tensor> sources = testing::page_tensors(from.pools.device()),
                              targets = testing::page_tensors(to.pools.device());
    for (size_t t = 0; t < sources.size(); ++t) {
      const Tensor here = from.ctx.on_host(sources[t]), there = to.ctx.on_host(targets[t]);
      for (size_t i = 0; i < sent.size(); ++i)
        ASSERT_EQ(testing::page_bytes(there, taken[i]), testing::page_bytes(here, sent[i]))
            << "round " << round << ", tensor " << t << ", block " << sent[i];
    }
    // Marks of many steps lie between two takes.
    for (size_t i = random() % (2 * DeviceBackend::kMarksKept); i > 0; --i) to.ctx.backend().mark();
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StagedPagesOf,
                         ::testing::Values(DType::kF32, DType::kF16, DType::kF8E4M3, DType::kI8));

}  // namespace
}  // namespace tandem::staged_pages_test
