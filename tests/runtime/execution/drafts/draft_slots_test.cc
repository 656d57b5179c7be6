// Which slots have the draft model's keys and values: against a list of all of them.
#include "runtime/execution/drafts/draft_slots.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tandem {
namespace {

using Table = std::vector<int32_t>;

TEST(DraftSlots, CountsUpToTheFirstGap) {
  DraftSlots slots(4, 8, 2);
  const Table table{5, 2, 7};
  EXPECT_EQ(slots.count(table, 12), 0);
  slots.fill(table, 0, 10);
  EXPECT_EQ(slots.count(table, 12), 10);
  EXPECT_EQ(slots.count(table, 6), 6);
  slots.clear(table, 6, 7);
  EXPECT_EQ(slots.count(table, 12), 6) << "what lies behind is void";
  slots.fill(table, 6, 8);
  EXPECT_EQ(slots.count(table, 12), 10) << "but the next block was not written";
  slots.clear(table, 3, 10);
  EXPECT_EQ(slots.count(table, 12), 3);
  EXPECT_EQ(slots.count({}, 0), 0);
}

TEST(DraftSlots, BlocksTakeTheirContentsAlong) {
  DraftSlots slots(2, 6, 3);
  slots.fill(Table{0, 1}, 0, 3);
  proto::StepInput out;
  const auto pair = [](proto::BlockCopy& copy, int src, int dst) {
    copy.set_src(src);
    copy.set_dst(dst);
  };
  pair(*out.add_swap_out(), 0, 2);
  pair(*out.add_swap_out(), 1, 0);
  slots.apply_copies(out);
  slots.clear(Table{0, 1}, 0, 4);
  proto::StepInput in;
  pair(*in.add_swap_in(), 2, 4);
  pair(*in.add_swap_in(), 0, 5);
  pair(*in.add_copy(), 5, 3);
  slots.apply_copies(in);
  EXPECT_EQ(slots.count(Table{4, 5}, 4), 3);
  EXPECT_EQ(slots.count(Table{4, 3}, 4), 3);
  EXPECT_EQ(slots.count(Table{0, 1}, 4), 0);
}

// Sequences of one another's blocks, written by the model and the draft model; a slot counts if the
// draft model wrote what the model wrote last, and so did all before it in its block.
TEST(DraftSlots, AgreesWithAListOfSlots) {
  constexpr int kBlock = 3, kBlocks = 12;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 rng(seed);
    const auto pick = [&](int from, int to) {
      return std::uniform_int_distribution(from, to)(rng);
    };
    DraftSlots slots(kBlock, kBlocks, 1);
    std::vector<bool> there(kBlock * kBlocks, false);
    for (int i = 0; i < 300; ++i) {
      Table table(kBlocks);
      for (int b = 0; b < kBlocks; ++b) table[static_cast<size_t>(b)] = b;
      std::shuffle(table.begin(), table.end(), rng);
      table.resize(static_cast<size_t>(pick(1, 4)));
      const int size = kBlock * static_cast<int>(table.size());
      const auto at = [&](int p) {
        return static_cast<size_t>(table[static_cast<size_t>(p / kBlock)] * kBlock + p % kBlock);
      };
      int known = 0;
      while (known < size && there[at(known)]) ++known;
      ASSERT_EQ(slots.count(table, size), known);
      const int first = pick(0, known), end = pick(first, size);
      slots.clear(table, first, end);
      for (int p = first; p < end; ++p)
        for (int q = p; q < (p / kBlock + 1) * kBlock; ++q) there[at(q)] = false;
      if (pick(0, 1) == 0) continue;
      slots.fill(table, first, end);
      for (int p = first; p < end; ++p) there[at(p)] = true;
    }
  }
}

}  // namespace
}  // namespace tandem
