// Cuts the attention of a step into blocks of a GPU: groups of queries, and chunks of their keys.
#include "kernels/attention_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tandem {
namespace {

// Slots are indices of int32 in the kernels.
int32_t advance(int32_t& counter, int64_t by) {
  const int32_t first = counter;
  TANDEM_CHECK_LE(by, int64_t{std::numeric_limits<int32_t>::max()} - counter);
  counter += static_cast<int32_t>(by);
  return first;
}

// The chunks of `count` queries of a sequence, from its query `first` on.
void plan_queries(const AttentionSequence& sequence, int32_t first, int32_t count,
                  int32_t keys_per_chunk, AttentionPlan& plan, std::vector<AttentionWork>& list) {
  const int32_t position =
      sequence.causal ? sequence.keys - sequence.queries + first : AttentionWork::kEverything;
  const int32_t seen = sequence.causal ? position + count : sequence.keys;
  AttentionWork work{};
  work.query_row = sequence.query_row + first;
  work.queries = count;
  work.position = position;
  work.query_position = sequence.keys - sequence.queries + first;
  work.kv_base = sequence.kv_base;
  work.chunks = (seen - 1) / keys_per_chunk + 1;
  if (work.chunks > 1) {
    work.partial = advance(plan.partials, int64_t{count} * work.chunks);
    work.ticket = advance(plan.tickets, 1);
  }
  for (int32_t chunk = 0; chunk < work.chunks; ++chunk) {
    work.chunk = chunk;
    work.key_begin = chunk * keys_per_chunk;
    work.key_end = chunk + 1 < work.chunks ? work.key_begin + keys_per_chunk : seen;
    list.push_back(work);
  }
}

void longest_first(std::vector<AttentionWork>& list) {
  std::stable_sort(list.begin(), list.end(), [](const AttentionWork& a, const AttentionWork& b) {
    return a.key_end - a.key_begin > b.key_end - b.key_begin;
  });
}

}  // namespace

AttentionPlan plan_attention(std::span<const AttentionSequence> sequences, bool use_tiles) {
  AttentionPlan plan;
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.queries == 0) continue;
    TANDEM_CHECK_GT(sequence.queries, 0);
    TANDEM_CHECK_GE(sequence.keys, sequence.causal ? sequence.queries : 1);
    TANDEM_CHECK_LT(sequence.keys, AttentionWork::kEverything);
    const bool tiles = use_tiles && sequence.queries > kRowsPerBlock;
    const int32_t step = tiles ? kTileRows : kRowsPerBlock;
    for (int32_t first = 0; first < sequence.queries; first += step) {
      const int32_t count = std::min(step, sequence.queries - first);
      plan_queries(sequence, first, count, tiles ? kKeysPerTileChunk : kKeysPerChunk, plan,
                   tiles ? plan.tiles : plan.rows);
      if (!tiles) plan.row_queries = std::max(plan.row_queries, count);
    }
  }
  longest_first(plan.rows);
  longest_first(plan.tiles);
  return plan;
}

}  // namespace tandem
