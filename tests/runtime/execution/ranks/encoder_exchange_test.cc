// Pages on their way from ranks of encoders to those of decoders: each gets its layers and its
// heads, in the blocks that it names.
#include "runtime/execution/ranks/encoder_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "parallel/communicators/shared_memory_communicator.h"
#include "parallel/shard.h"
#include "runtime/execution/kv_cache.h"

namespace tandem::encoder_exchange_test {
namespace {

constexpr int kLayers = 3, kHeads = 5, kHeadDim = 4, kBlockSize = 2, kBlocks = 12;

struct Share {
  int first_layer, layers, first_head, heads;
};

KvCacheSpec spec_of(const Share& share, DType dtype) {
  return {.num_layers = share.layers,
          .num_heads = share.heads,
          .head_dim = kHeadDim,
          .dtype = dtype,
          .first_head = share.first_head};
}

void fill(const Tensor& tensor, std::mt19937& random) {
  auto* const bytes = static_cast<uint8_t*>(tensor.raw());
  for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = static_cast<uint8_t>(random());
}

// Bytes of one head of one block: keys, or values.
std::string head_of(const Tensor& pages, int block, int side, int head) {
  const auto heads = static_cast<int>(pages.dim(2));
  const size_t bytes = pages.bytes() / static_cast<size_t>(pages.dim(0) * 2 * heads);
  const auto* const at = static_cast<const char*>(pages.raw()) +
                         static_cast<size_t>((block * 2 + side) * heads + head) * bytes;
  return {at, bytes};
}

proto::EncoderTake take_of(int rank, int64_t seq_id, const std::vector<int32_t>& blocks) {
  proto::EncoderTake take;
  take.set_rank(rank);
  take.set_seq_id(seq_id);
  take.mutable_blocks()->Add(blocks.begin(), blocks.end());
  return take;
}

// So many ranks of decoders, which have these shares, and two of encoders.
class Group {
 public:
  Group(const std::vector<Share>& shares, DType dtype)
      : shares_(shares), ranks_{static_cast<int>(shares.size()), 2}, dtype_(dtype) {
    // Small pieces: a block of all heads takes several.
    for (auto& comm : make_thread_communicators(ranks_.end(), {.chunk_bytes = 1024}))
      comms_.push_back(std::move(comm));
    for (size_t i = 0; i < shares.size(); ++i) {
      inboxes_.push_back(std::make_unique<EncoderInbox>(ctx(), comms_[i], ranks_,
                                                        spec_of(shares[i], dtype),
                                                        shares[i].first_layer, device_place(-1)));
      pools_.push_back(pools(spec_of(shares[i], dtype)));
    }
    for (int rank = ranks_.first; rank < ranks_.end(); ++rank)
      outboxes_.push_back(std::make_unique<EncoderOutbox>(ctx(), comms_[static_cast<size_t>(rank)],
                                                          ranks_, whole(), device_place(-1)));
  }

  static Context& ctx() {
    static Context ctx(1);
    return ctx;
  }
  static std::unique_ptr<KvCachePools> pools(const KvCacheSpec& spec) {
    return std::make_unique<KvCachePools>(ctx(), spec, kBlockSize, kBlocks, 0);
  }
  KvCacheSpec whole() const { return spec_of({0, kLayers, 0, kHeads}, dtype_); }
  void post(int rank, const KvCache& pages, int64_t seq_id, const std::vector<int32_t>& blocks) {
    const EncoderOutbox::Source source{seq_id, blocks};
    outbox(rank).post(pages, {&source, 1});
  }
  EncoderOutbox& outbox(int rank) { return *outboxes_[static_cast<size_t>(rank - ranks_.first)]; }
  int first() const { return ranks_.first; }

  // All ranks of decoders do as they are told, one after the other.
  void take(const proto::StepInput& step) {
    for (size_t i = 0; i < inboxes_.size(); ++i) inboxes_[i]->take(step, pools_[i]->device());
  }
  void expect_taken(const KvCache& sent, const std::vector<int32_t>& from,
                    const std::vector<int32_t>& to) const {
    for (size_t i = 0; i < shares_.size(); ++i) {
      const Share& share = shares_[i];
      for (int layer = 0; layer < share.layers; ++layer) {
        const KvPages& source = sent.layers[static_cast<size_t>(share.first_layer + layer)];
        const KvPages& target = pools_[i]->device().layers[static_cast<size_t>(layer)];
        for (size_t b = 0; b < from.size(); ++b)
          for (int side = 0; side < 2; ++side)
            for (int head = 0; head < share.heads; ++head) {
              const int of_all = share.first_head + head;
              ASSERT_EQ(head_of(target.data, to[b], side, head),
                        head_of(source.data, from[b], side, of_all));
              if (!source.scales.empty()) {
                ASSERT_EQ(head_of(target.scales, to[b], side, head),
                          head_of(source.scales, from[b], side, of_all));
              }
            }
      }
    }
  }

 private:
  std::vector<Share> shares_;
  EncoderRanks ranks_;
  DType dtype_;
  std::vector<std::shared_ptr<Communicator>> comms_;
  std::vector<std::unique_ptr<EncoderInbox>> inboxes_;
  std::vector<std::unique_ptr<KvCachePools>> pools_;
  std::vector<std::unique_ptr<EncoderOutbox>> outboxes_;
};

// Heads over two ranks; layers over two; both; more ranks than heads of a share.
const std::vector<std::vector<Share>>& layouts() {
  static const std::vector<std::vector<Share>> all{
      {{0, 3, 0, 5}},
      {{0, 3, 0, 3}, {0, 3, 3, 2}},
      {{0, 1, 0, 5}, {1, 2, 0, 5}},
      {{0, 2, 0, 3}, {0, 2, 3, 2}, {2, 1, 0, 3}, {2, 1, 3, 2}},
      {{0, 0, 0, 5}, {0, 3, 0, 5}, {0, 3, 5, 0}}};
  return all;
}

class EncoderExchange : public ::testing::TestWithParam<DType> {};

TEST_P(EncoderExchange, EachRankGetsItsPart) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::vector<Share>& shares : layouts()) {
    Group group(shares, GetParam());
    const auto own = Group::pools(group.whole());
    const KvCache& cache = own->device();
    for (int64_t round = 0; round < 20; ++round) {
      for (const KvPages& pages : cache.layers) {
        fill(pages.data, random);
        if (!pages.scales.empty()) fill(pages.scales, random);
      }
      std::vector<int32_t> all(kBlocks);
      for (int i = 0; i < kBlocks; ++i) all[static_cast<size_t>(i)] = i;
      const auto some = [&](size_t count) {
        std::shuffle(all.begin(), all.end(), random);
        return std::vector<int32_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
      };
      const size_t count = 1 + random() % 4;
      const int rank = group.first() + static_cast<int>(random() % 2);
      const std::vector<int32_t> from = some(count), to = some(count);
      group.post(rank, cache, round, from);
      group.post(rank, cache, 100 + round, some(2));  // nobody will want it
      proto::StepInput step;
      *step.add_takes() = take_of(rank, round, to);
      *step.add_takes() = take_of(rank, 100 + round, {});
      group.take(step);
      group.expect_taken(cache, from, to);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderExchange,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kI8));

TEST(EncoderInbox, RefusesWhatWasNotSent) {
  const auto what = [](const proto::EncoderTake& take) -> std::string {
    Group group({{0, kLayers, 0, kHeads}}, DType::kF32);
    const auto own = Group::pools(group.whole());
    group.post(1, own->device(), 7, {0, 1});
    proto::StepInput step;
    *step.add_takes() = take;
    try {
      group.take(step);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(what(take_of(1, 7, {3, 4})), "");
  EXPECT_NE(what(take_of(1, 8, {3, 4})).find("it sent sequence 7"), std::string::npos);
  EXPECT_NE(what(take_of(1, 7, {3})).find("it sent 2 blocks, not 1"), std::string::npos);
  EXPECT_NE(what(take_of(0, 7, {3, 4})).find("it runs no encoders"), std::string::npos);
  EXPECT_NE(what(take_of(3, 7, {3, 4})).find("it runs no encoders"), std::string::npos);
}

// A rank that nobody takes anything from ends all the same; later posts tell that the group is
// gone.
TEST(EncoderOutbox, EndsWithItsGroup) {
  Group group({{0, kLayers, 0, kHeads}}, DType::kF32);
  const auto own = Group::pools(group.whole());
  const std::vector<int32_t> blocks{0, 1, 2, 3, 4, 5};
  for (int i = 0; i < 20; ++i) group.post(1, own->device(), i, blocks);
  group.outbox(1).group().abort();
  const auto post_until_it_fails = [&] {
    for (int i = 0; i < 1000; ++i) {
      group.post(1, own->device(), i, blocks);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  EXPECT_THROW(post_until_it_fails(), CommunicatorError);
}

}  // namespace
}  // namespace tandem::encoder_exchange_test
