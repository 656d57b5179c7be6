// Pages from an encoders' rank to a decoders' on the same device: by ticket, without the host.
#include "runtime/execution/ranks/shared_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/plugin.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/ranks/encoder_exchange.h"
#include "tests/support/device_pages.h"

namespace tandem::shared_pages_test {
namespace {

constexpr int kBlocks = 24, kBlockSize = 4, kHeads = 2;
// (Whose rank is 1, of two.)
constexpr EncoderRanks kRanks{1, 1};

KvCacheSpec spec_of(DType dtype, int heads = kHeads) {
  return {.num_layers = 3, .num_heads = heads, .head_dim = 8, .dtype = dtype};
}

struct Device {
  explicit Device(const KvCacheSpec& spec)
      : ctx(1, cuda_plugin()->make_backend(0), DType::kF32),
        pools(ctx, spec, kBlockSize, kBlocks, 0) {}
  Context ctx;
  KvCachePools pools;
};

void fill(Device& device, std::mt19937& random) {
  testing::fill_pages(device.ctx, device.pools.device(), random);
  device.ctx.backend().synchronize();
}

void expect_same_blocks(Device& from, Device& to, std::span<const int32_t> sources,
                        std::span<const int32_t> targets) {
  to.ctx.backend().synchronize();
  const auto sent = testing::page_tensors(from.pools.device()),
             got = testing::page_tensors(to.pools.device());
  for (size_t t = 0; t < sent.size(); ++t) {
    const Tensor a = from.ctx.on_host(sent[t]), b = to.ctx.on_host(got[t]);
    for (size_t i = 0; i < sources.size(); ++i)
      ASSERT_EQ(testing::page_bytes(a, sources[i]), testing::page_bytes(b, targets[i]))
          << "tensor " << t;
  }
}

// Two ranks of one process. The place is what each says of itself.
class Pair {
 public:
  Pair(DType dtype, const DevicePlace& of_decoders, int heads_of_decoders = kHeads)
      : decoders(spec_of(dtype, heads_of_decoders)), encoders(spec_of(dtype)) {
    auto comms = make_thread_communicators(2);
    inbox =
        std::make_unique<EncoderInbox>(decoders.ctx, std::shared_ptr(std::move(comms[0])), kRanks,
                                       spec_of(dtype, heads_of_decoders), 0, of_decoders);
    outbox = std::make_unique<EncoderOutbox>(encoders.ctx, std::shared_ptr(std::move(comms[1])),
                                             kRanks, spec_of(dtype), device_place(0));
  }
  void post(int64_t seq_id, const std::vector<int32_t>& blocks) {
    const EncoderOutbox::Source source{seq_id, blocks};
    outbox->post(encoders.pools.device(), {&source, 1});
  }
  void take(int64_t seq_id, std::span<const int32_t> blocks) {
    proto::StepInput step;
    proto::EncoderTake& take = *step.add_takes();
    take.set_rank(kRanks.first);
    take.set_seq_id(seq_id);
    take.mutable_blocks()->Add(blocks.begin(), blocks.end());
    inbox->let_go();
    inbox->take(step, decoders.pools.device());
    // (As many marks lie between two takes as there are steps.)
    for (int i = 0; i < 5 * static_cast<int>(seq_id % 5); ++i) decoders.ctx.backend().mark();
  }

  Device decoders, encoders;
  std::unique_ptr<EncoderInbox> inbox;
  std::unique_ptr<EncoderOutbox> outbox;
};

class SharedPagesOf : public ::testing::TestWithParam<DType> {};

// By ticket, and through the host's memory where the ranks say that they are apart.
TEST_P(SharedPagesOf, BlocksArriveAsTheyWere) {
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  DevicePlace elsewhere = device_place(0);
  ++elsewhere.process;
  for (const DevicePlace& place : {device_place(0), elsewhere, device_place(1)}) {
    Pair pair(GetParam(), place);
    for (int64_t round = 0; round < 12; ++round) {
      fill(pair.encoders, random);
      std::vector<int32_t> numbers(kBlocks);
      std::iota(numbers.begin(), numbers.end(), 0);
      std::shuffle(numbers.begin(), numbers.end(), random);
      const size_t count = 1 + random() % (kBlocks / 2);
      const std::vector<int32_t> sources(numbers.begin(),
                                         numbers.begin() + static_cast<std::ptrdiff_t>(count));
      std::shuffle(numbers.begin(), numbers.end(), random);
      pair.post(round, sources);
      if (round % 4 == 0) {  // nobody wants them, the first ones neither
        pair.take(round, {});
        continue;
      }
      pair.take(round, std::span(numbers).first(count));
      expect_same_blocks(pair.encoders, pair.decoders, sources, std::span(numbers).first(count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SharedPagesOf,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kI8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// Two sources of one step, from the pages of one copy.
TEST(SharedPages, SourcesOfOneStep) {
  Pair pair(DType::kF32, device_place(0));
  std::mt19937 random(7);
  fill(pair.encoders, random);
  const std::vector<int32_t> a{5, 1, 9}, b{2, 20};
  const EncoderOutbox::Source sources[]{{1, a}, {2, b}};
  pair.outbox->post(pair.encoders.pools.device(), sources);
  fill(pair.encoders, random);  // the next step writes what it likes
  const std::vector<int32_t> to_a{0, 1, 2}, to_b{10, 11};
  pair.take(1, to_a);
  pair.take(2, to_b);
  pair.post(3, a);
  pair.take(3, std::vector<int32_t>{3, 4, 5});
  expect_same_blocks(pair.encoders, pair.decoders, a, std::vector<int32_t>{3, 4, 5});
}

// A rank that has some of the heads gets them through the host.
TEST(SharedPages, NotForPartsOfTheHeads) {
  Pair pair(DType::kF32, device_place(0), 1);
  std::mt19937 random(11);
  fill(pair.encoders, random);
  const std::vector<int32_t> blocks{4, 2};
  pair.post(1, blocks);
  pair.take(1, std::vector<int32_t>{7, 8});
  pair.decoders.ctx.backend().synchronize();
  const Tensor all = pair.encoders.ctx.on_host(pair.encoders.pools.device().layers[0].data);
  const Tensor half = pair.decoders.ctx.on_host(pair.decoders.pools.device().layers[0].data);
  const std::string sent = testing::page_bytes(all, 4), got = testing::page_bytes(half, 7);
  const size_t head = sent.size() / (2 * kHeads);
  EXPECT_EQ(got.substr(0, head), sent.substr(0, head));           // keys
  EXPECT_EQ(got.substr(head), sent.substr(kHeads * head, head));  // values
}

// Pages are filled again once nobody holds them, and not before.
TEST(SharedPages, AreFilledAgain) {
  const KvCacheSpec spec = spec_of(DType::kF32);
  Device device(spec);
  SharedPages shared(device.ctx, spec);
  const std::vector<int32_t> two{1, 2}, four{3, 4, 5, 6};
  {
    const SharedPages::Pages first = shared.copy(device.pools.device(), two);
    const SharedPages::Pages second = shared.copy(device.pools.device(), two);
    EXPECT_NE(first, second);
    EXPECT_EQ(shared.sets(), 2);
  }
  for (int i = 0; i < 5; ++i) shared.copy(device.pools.device(), two);
  EXPECT_EQ(shared.sets(), 2);
  // Larger ones take the place of those that are too small.
  shared.copy(device.pools.device(), four);
  EXPECT_EQ(shared.sets(), 1);
  shared.synchronize();
}

TEST(SharedPages, TicketsAreGoneWithTheirRank) {
  const KvCacheSpec spec = spec_of(DType::kF32);
  Device device(spec);
  const std::vector<int32_t> blocks{1, 2};
  auto shared = std::make_unique<SharedPages>(device.ctx, spec);
  const int64_t one = shared->leave(shared->copy(device.pools.device(), blocks));
  const int64_t other = shared->leave(shared->copy(device.pools.device(), blocks));
  EXPECT_NE(one, 0);
  EXPECT_NE(SharedPages::take(one), nullptr);
  EXPECT_EQ(SharedPages::take(one), nullptr);
  shared->synchronize();
  shared.reset();
  EXPECT_EQ(SharedPages::take(other), nullptr);
}

}  // namespace
}  // namespace tandem::shared_pages_test
