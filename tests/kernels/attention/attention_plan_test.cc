// The plan of attention against what it promises: every pair of a query and a key that it sees is
// in one item, chunks are cut in the same places in every batch, slots and tickets are dense.
#include "kernels/attention_plan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::attention_plan_test {
namespace {

using testing::Random;

std::vector<AttentionSequence> random_sequences(Random& random) {
  std::vector<AttentionSequence> sequences;
  int32_t row = static_cast<int32_t>(random.integer(0, 5)), base = 0;
  for (int64_t count = random.integer(0, 8); count > 0; --count) {
    AttentionSequence s{};
    s.query_row = row;
    s.queries = random.pick({0, 1, 2, 4, 7, 8, 9, 16, 17, 63, 64, 65, 130});
    s.causal = random.integer(0, 1) == 1;
    s.keys = random.pick({1, 2, 31, 511, 512, 513, 1024, 1100, 2048, 2049, 5000});
    if (s.causal) s.keys = std::max(s.keys, s.queries);
    s.kv_base = base;
    row += s.queries + static_cast<int32_t>(random.integer(0, 2));
    base += s.keys;
    sequences.push_back(s);
  }
  return sequences;
}

// What one group of queries asks for: its items, by chunk.
using Group = std::vector<const AttentionWork*>;

std::map<int32_t, Group> by_query_row(const AttentionPlan& plan) {
  std::map<int32_t, Group> groups;
  for (const auto* list : {&plan.rows, &plan.tiles})
    for (const AttentionWork& work : *list) groups[work.query_row].push_back(&work);
  for (auto& [row, group] : groups)
    std::sort(group.begin(), group.end(),
              [](const auto* a, const auto* b) { return a->chunk < b->chunk; });
  return groups;
}

void expect_covered(const AttentionSequence& s, const std::map<int32_t, Group>& groups,
                    bool use_tiles) {
  const bool tiles = use_tiles && s.queries > kRowsPerBlock;
  const int32_t step = tiles ? kTileRows : kRowsPerBlock;
  const int32_t keys_per_chunk = tiles ? kKeysPerTileChunk : kKeysPerChunk;
  for (int32_t first = 0; first < s.queries; first += step) {
    const int32_t count = std::min(step, s.queries - first);
    const int32_t position = s.causal ? s.keys - s.queries + first : AttentionWork::kEverything;
    const int32_t seen = s.causal ? position + count : s.keys;
    ASSERT_TRUE(groups.contains(s.query_row + first));
    const Group& group = groups.at(s.query_row + first);
    for (size_t c = 0; c < group.size(); ++c) {
      const AttentionWork& work = *group[c];
      EXPECT_EQ(work.queries, count);
      EXPECT_EQ(work.position, position);
      EXPECT_EQ(work.kv_base, s.kv_base);
      EXPECT_EQ(work.chunk, static_cast<int32_t>(c));
      EXPECT_EQ(work.chunks, static_cast<int32_t>(group.size()));
      EXPECT_EQ(work.key_begin, work.chunk * keys_per_chunk);
      EXPECT_EQ(work.key_end, std::min(seen, work.key_begin + keys_per_chunk));
      EXPECT_LT(work.key_begin, work.key_end);
      EXPECT_EQ(work.partial, group[0]->partial);
      EXPECT_EQ(work.ticket, group[0]->ticket);
    }
    EXPECT_EQ(group.back()->key_end, seen);
  }
}

// Every slot is of one group, and so is every ticket.
void expect_dense(const AttentionPlan& plan, const std::map<int32_t, Group>& groups) {
  std::vector<int> slots(static_cast<size_t>(plan.partials)),
      tickets(static_cast<size_t>(plan.tickets));
  for (const auto& [row, group] : groups) {
    const AttentionWork& work = *group[0];
    if (work.chunks == 1) continue;
    ++tickets.at(static_cast<size_t>(work.ticket));
    for (int32_t i = 0; i < work.chunks * work.queries; ++i)
      ++slots.at(static_cast<size_t>(work.partial + i));
  }
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 1), plan.partials);
  EXPECT_EQ(std::count(tickets.begin(), tickets.end(), 1), plan.tickets);
}

void expect_longest_first(const std::vector<AttentionWork>& list) {
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.key_end - a.key_begin > b.key_end - b.key_begin;
  }));
}

bool same(const std::vector<AttentionWork>& a, const std::vector<AttentionWork>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

TEST(AttentionPlan, CoversWhatQueriesSee) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const std::vector<AttentionSequence> sequences = random_sequences(random);
    const bool use_tiles = random.integer(0, 1) == 1;
    const AttentionPlan plan = plan_attention(sequences, use_tiles);
    const auto groups = by_query_row(plan);
    size_t items = 0;
    int32_t most = 0, queries = 0;
    for (const auto& [row, group] : groups) {
      items += group.size();
      queries += group[0]->queries;
    }
    for (const AttentionSequence& s : sequences) {
      expect_covered(s, groups, use_tiles);
      queries -= s.queries;
      if (!use_tiles || s.queries <= kRowsPerBlock)
        most = std::max(most, std::min(s.queries, kRowsPerBlock));
    }
    EXPECT_EQ(queries, 0);
    EXPECT_EQ(items, plan.rows.size() + plan.tiles.size());
    EXPECT_EQ(plan.row_queries, most);
    EXPECT_TRUE(use_tiles || plan.tiles.empty());
    expect_dense(plan, groups);
    expect_longest_first(plan.rows);
    expect_longest_first(plan.tiles);
    const AttentionPlan again = plan_attention(sequences, use_tiles);
    EXPECT_TRUE(same(plan.rows, again.rows) && same(plan.tiles, again.tiles));
  }
}

// A sequence alone is cut as in a batch: the same chunks, in rows or in tiles alike.
TEST(AttentionPlan, ASequenceIsCutAsAlone) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    const std::vector<AttentionSequence> sequences = random_sequences(random);
    const AttentionPlan plan = plan_attention(sequences, true);
    for (const AttentionSequence& s : sequences) {
      const AttentionPlan alone = plan_attention(std::span(&s, 1), true);
      for (auto list : {&AttentionPlan::rows, &AttentionPlan::tiles}) {
        std::vector<AttentionWork> mine;
        for (const AttentionWork& work : plan.*list)
          if (work.query_row >= s.query_row && work.query_row < s.query_row + s.queries)
            mine.push_back(work);
        ASSERT_EQ(mine.size(), (alone.*list).size());
        for (size_t i = 0; i < mine.size(); ++i) {
          const AttentionWork& a = mine[i];
          const AttentionWork& b = (alone.*list)[i];
          EXPECT_EQ(std::tie(a.query_row, a.queries, a.position, a.key_begin, a.key_end, a.chunk),
                    std::tie(b.query_row, b.queries, b.position, b.key_begin, b.key_end, b.chunk));
        }
      }
    }
  }
}

TEST(AttentionPlan, NothingToDo) {
  const AttentionSequence idle{3, 0, 7, 0, true};
  const AttentionPlan plan = plan_attention(std::span(&idle, 1), true);
  EXPECT_TRUE(plan.rows.empty() && plan.tiles.empty());
  EXPECT_EQ(plan.partials + plan.tickets + plan.row_queries, 0);
}

}  // namespace
}  // namespace tandem::attention_plan_test
