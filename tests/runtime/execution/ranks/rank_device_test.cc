// Which device each rank computes on: as many as there are ranks, fewer, one that is named.
#include "runtime/execution/ranks/rank_device.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/family.h"
#include "runtime/execution/engine_config.h"

namespace tandem::rank_device_test {
namespace {

struct Layout {
  int replicas, decoders, encoders, devices;
  std::string device = "cuda";
};

// The device of each rank, replica after replica; behind a decoders' rank that shares it with n
// encoders' "+n".
std::string places(const Layout& layout) {
  std::string out;
  const int size = layout.decoders + layout.encoders;
  for (int replica = 0; replica < layout.replicas; ++replica)
    for (int rank = 0; rank < size; ++rank) {
      proto::WorkerSetup setup;
      setup.set_rank(rank);
      setup.set_size(size);
      setup.set_replica(replica);
      setup.set_num_ranks(size * layout.replicas);
      setup.mutable_config()->mutable_loading()->set_device(layout.device);
      setup.mutable_config()->mutable_parallel()->set_encoder_ranks(layout.encoders);
      const RankDevice device = rank_device(setup, layout.devices);
      out += (out.empty() ? "" : " ") + std::to_string(device.index);
      if (device.encoders > 0) out += "+" + std::to_string(device.encoders);
    }
  return out;
}

TEST(RankDevice, OneEachWhereThereAreEnough) {
  EXPECT_EQ(places({1, 1, 0, 1}), "0");
  EXPECT_EQ(places({2, 2, 0, 4}), "0 1 2 3");
  EXPECT_EQ(places({1, 2, 1, 3}), "0 1 2");
  EXPECT_EQ(places({2, 1, 1, 8}), "0 1 2 3");
}

TEST(RankDevice, TooFewWithoutEncodersIsNotItsMatter) { EXPECT_EQ(places({1, 2, 0, 1}), "0 1"); }

TEST(RankDevice, EncodersShareTheDecoders) {
  EXPECT_EQ(places({1, 1, 1, 1}), "0+1 0");
  EXPECT_EQ(places({1, 1, 3, 2}), "0+3 0 0 0");
  EXPECT_EQ(places({1, 2, 1, 2}), "0+1 1 0");
  EXPECT_EQ(places({1, 2, 3, 4}), "0+2 1+1 0 1 0");
  EXPECT_EQ(places({2, 2, 2, 4}), "0+1 1+1 0 1 2+1 3+1 2 3");
}

TEST(RankDevice, OneThatIsNamedIsAllRanks) {
  EXPECT_EQ(places({1, 1, 2, 8, "cuda:3"}), "0+2 0 0");  // (choose_device() takes the number)
  EXPECT_EQ(places({1, 2, 0, 8, "cuda:3"}), "0 1");
}

TEST(RankDevice, OnCpusNothingIsShared) { EXPECT_EQ(places({1, 1, 1, 0, "auto"}), "0 1"); }

// What a decoders' rank leaves free: more for longer inputs, and for a larger encoder.
TEST(RankDevice, BytesOfAnEncodersRank) {
  const ModelConfig model = ModelConfig::load(TANDEM_SOURCE_DIR "/examples/demo-model");
  Context ctx(1);
  EngineConfig config;
  config.mutable_cache()->set_block_size(16);
  config.mutable_scheduling()->set_max_num_batched_tokens(512);
  config.mutable_scheduling()->set_max_num_seqs(4);
  const KvCacheSpec spec{.num_layers = 2, .num_heads = 4, .head_dim = 16};
  Stage small, large;
  small.parameters = 1000;
  large.parameters = 5000;
  const auto bytes = [&](const Stage& stage, int ranks) {
    return bytes_of_encoder_rank(config, ctx, model, stage, spec, ranks);
  };
  EXPECT_EQ(bytes(large, 1) - bytes(small, 1),
            large.bytes_of_rank(DType::kF32, 1) - small.bytes_of_rank(DType::kF32, 1));
  EXPECT_GT(bytes(large, 1), bytes(small, 1));
  EXPECT_GT(bytes(small, 2), bytes(small, 1));  // which has pages of all heads
  const size_t before = bytes(small, 1);
  config.mutable_scheduling()->set_max_num_batched_tokens(4096);
  EXPECT_GT(bytes(small, 1), before);
}

}  // namespace
}  // namespace tandem::rank_device_test
