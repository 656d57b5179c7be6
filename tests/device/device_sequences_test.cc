// Places of sequences in a device's memory: given, used again, grown.
#include "runtime/execution/device/device_sequences.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "runtime/execution/engine_config.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::device_sequences_test {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<Context> device() {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_device("cuda");
  return make_context(config, DType::kF32, 1);
}

Tokens row_of(const Tensor& matrix, int64_t row, size_t size) {
  const int32_t* begin = matrix.row<int32_t>(row);
  return {begin, begin + size};
}

// Against a map of what they should hold.
TEST(DeviceSequences, RandomLives) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  const auto ctx = device();
  DeviceSequences sequences(*ctx, /*block_size=*/2, /*max_tokens=*/0);
  struct Kept {
    Tokens tokens, pages;
    float score;
  };
  std::map<int64_t, Kept> kept;
  int64_t next_id = 0;
  int moved = 0;
  for (int step = 0; step < 60; ++step) {
    std::vector<int64_t> gone;
    for (const auto& [id, k] : kept)
      if (below(8) == 0) gone.push_back(id);
    gone.push_back(next_id + 1000);  // not there
    sequences.forget(gone);
    for (const int64_t id : gone) kept.erase(id);
    std::vector<int64_t> begun;
    for (size_t n = below(12); n > 0; --n) {
      begun.push_back(below(4) == 0 && !kept.empty() ? kept.begin()->first : next_id++);
      Kept& k = kept[begun.back()];
      k = {Tokens(1 + below(step < 30 ? 20 : 700)), Tokens(below(9)),
           static_cast<float>(below(99))};
      for (auto* list : {&k.tokens, &k.pages})
        for (int32_t& x : *list) x = static_cast<int32_t>(below(1000));
    }
    std::vector<DeviceSequences::Start> starts;
    for (const int64_t id : std::set<int64_t>(begun.begin(), begun.end())) {
      const Kept& k = kept.at(id);
      const std::span<const int32_t> all(k.tokens);
      starts.push_back({id, all.first(1), all.subspan(1), k.pages, k.score});
    }
    ctx->backend().begin_step();
    moved += sequences.begin(starts);
    sequences.check_integrity();
    ASSERT_EQ(sequences.size(), kept.size());
    const ops::SequenceMemory& memory = sequences.memory();
    if (memory.tokens.empty()) continue;
    const Tensor tokens = ctx->on_host(memory.tokens), pages = ctx->on_host(memory.pages),
                 scores = ctx->on_host(memory.scores);
    for (const auto& [id, k] : kept) {
      ASSERT_TRUE(sequences.has(id, static_cast<int>(k.tokens.size())));
      ASSERT_FALSE(sequences.has(id, static_cast<int>(k.tokens.size()) + 1));
      const int32_t place = sequences.place_of(id);
      ASSERT_EQ(row_of(tokens, place, k.tokens.size()), k.tokens);
      ASSERT_EQ(row_of(pages, place, k.pages.size()), k.pages);
      ASSERT_EQ(scores.data<float>()[place], k.score);
    }
  }
  EXPECT_GT(moved, 1);
}

TEST(DeviceSequences, HasRoomForTheNextToken) {
  const auto ctx = device();
  DeviceSequences sequences(*ctx, 4, /*max_tokens=*/5);
  const Tokens tokens{1, 2, 3};
  const std::vector<int64_t> ids{9};
  ctx->backend().begin_step();
  EXPECT_TRUE(sequences.begin(std::vector<DeviceSequences::Start>{{9, tokens, {}}}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sequences.reserve_next(ids)) << i;  // a model's positions, and the last token
    sequences.append(9);
  }
  EXPECT_TRUE(sequences.has(9, 6));
  EXPECT_TRUE(sequences.reserve_next(ids));
  sequences.append(9);
  sequences.check_integrity();
}

// As many sequences as were reserved for, of all lengths: nothing moves.
TEST(DeviceSequences, NothingMovesWithinWhatIsReserved) {
  const auto ctx = device();
  for (const int max_tokens : {7, 0}) {
    DeviceSequences sequences(*ctx, 2, max_tokens);
    sequences.reserve_for(70);
    const void* place = sequences.memory().tokens.raw();
    const int longest = max_tokens > 0 ? max_tokens : 1500;
    for (int64_t id = 0; id < 70; ++id) {
      const Tokens tokens(static_cast<size_t>(1 + id % longest), 3);
      ctx->backend().begin_step();
      ASSERT_FALSE(sequences.begin(std::vector<DeviceSequences::Start>{{id, tokens, {}}})) << id;
      ASSERT_FALSE(sequences.reserve_next(std::vector<int64_t>{id})) << id;
    }
    EXPECT_EQ(sequences.memory().tokens.raw(), place);
    const Tokens one{1};  // more of them are possible
    ctx->backend().begin_step();
    for (int64_t id = 70; id < 200; ++id)
      sequences.begin(std::vector<DeviceSequences::Start>{{id, one, {}}});
    EXPECT_NE(sequences.memory().tokens.raw(), place);
    sequences.check_integrity();
  }
}

TEST(DeviceSequences, ReferencesFitAnIndex) {
  EXPECT_EQ(DeviceSequences::page_reference(0, 0), -1);
  EXPECT_EQ(DeviceSequences::page_reference(2, 5), -1 - (2 * 65536 + 5));
  EXPECT_LT(DeviceSequences::page_reference(32767, 65535), 0);
}

}  // namespace
}  // namespace tandem::device_sequences_test
