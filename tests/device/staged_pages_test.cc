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

std::vector<Tensor> tensors_of(const KvCache& cache) {
  std::vector<Tensor> all;
  for (const KvPages& pages : cache.layers) {
    all.push_back(pages.data);
    if (!pages.scales.empty()) all.push_back(pages.scales);
  }
  return all;
}

std::string block_of(const Tensor& host, int32_t block) {
  const size_t bytes = host.bytes() / static_cast<size_t>(host.dim(0));
  return {static_cast<const char*>(host.raw()) + static_cast<size_t>(block) * bytes, bytes};
}

class StagedPagesOf : public ::testing::TestWithParam<DType> {};

TEST_P(StagedPagesOf, BlocksArriveAsTheyWere) {
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const KvCacheSpec spec = spec_of(GetParam());
  Device from(spec), to(spec);
  for (const Tensor& pages : tensors_of(from.pools.device())) {
    std::vector<uint8_t> bytes(pages.bytes());
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    from.ctx.backend().copy_in(Tensor::borrow(bytes.data(), pages.shape(), pages.dtype()), pages);
  }
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
        const std::vector<Tensor> sources = tensors_of(out), staged = tensors_of(in);
        for (size_t t = 0; t < sources.size(); ++t) {
          const std::string bytes = block_of(sources[t], blocks[i]);
          std::memcpy(static_cast<char*>(staged[t].raw()) + i * bytes.size(), bytes.data(),
                      bytes.size());
        }
        targets.push_back(static_cast<int32_t>(half * kBlocks / 2 + static_cast<int>(i)));
      }
      to.staged.copy_in(to.pools.device(), targets);
      sent.insert(sent.end(), blocks.begin(), blocks.end());
      taken.insert(taken.end(), targets.begin(), targets.end());
    }
    const std::vector<Tensor> sources = tensors_of(from.pools.device()),
                              targets = tensors_of(to.pools.device());
    for (size_t t = 0; t < sources.size(); ++t) {
      const Tensor here = from.ctx.on_host(sources[t]), there = to.ctx.on_host(targets[t]);
      for (size_t i = 0; i < sent.size(); ++i)
        ASSERT_EQ(block_of(there, taken[i]), block_of(here, sent[i]))
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
