// How attention is cut into blocks of a GPU. Made once per step on the host, used by every layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// One block's work for one head: some queries of a sequence over some of its keys. Lies on the
// device as kAttentionWorkInts int32, in this order.
struct AttentionWork {
  int32_t query_row;  // of the first query in q and out
  int32_t queries;    // 0: nothing to do (what fills up a list of fixed size)
  int32_t position;   // query i sees the keys [0, position + i]; kEverything if not causal
  int32_t kv_base;    // pages: where the sequence's begin in page_indices; ragged: its first row
  int32_t key_begin;  // the keys of this block, [key_begin, key_end), counted from the
  int32_t key_end;    //   sequence's first
  int32_t chunk;      // of `chunks` that share these queries
  int32_t chunks;
  int32_t partial;  // chunks > 1: query i's part of chunk c lies at partial + c * queries + i
  int32_t ticket;   // chunks > 1: counts the chunks that are done; the last one merges
  int32_t
      query_position;  // where the first query stands among the keys, for a bias: causal or not,
                       //   keys - queries of the sequence are before its first
  int32_t reserved;

  static constexpr int32_t kEverything = 1 << 30;
};
constexpr int kAttentionWorkInts = 12;
static_assert(sizeof(AttentionWork) == kAttentionWorkInts * sizeof(int32_t));

// Keys of one chunk. Chunks begin at multiples of these constants, so the sums over a sequence's
// keys are cut at the same places in any batch. Tiles have longer chunks: they exceed the number of
// multiprocessors sooner, and each cut writes more partial results.
constexpr int32_t kKeysPerChunk = 512;
constexpr int32_t kKeysPerTileChunk = 2048;
// Queries of one block: of the kernel that keeps them in registers, and of the one on tensor cores.
constexpr int32_t kRowsPerBlock = 8;
constexpr int32_t kTileRows = 64;

struct AttentionPlan {
  std::vector<AttentionWork> rows;   // of sequences of few queries, up to kRowsPerBlock each
  std::vector<AttentionWork> tiles;  // of the others, up to kTileRows each
  int32_t row_queries = 0;           // the most queries of an entry of `rows`
  int32_t row_blocks = 0;            // blocks that share `rows`, for each head; 0: one for each
  int32_t partials = 0;              // slots of partial results: a query's over one chunk
  int32_t tickets = 0;
  // Works read keys that queries of other works write: all keys are written before attention
  // begins. plan_attention() leaves it false.
  bool shared_keys = false;
};

// A sequence of `queries` queries and `keys` keys for each entry.
struct AttentionSequence {
  int32_t query_row, queries, keys, kv_base;
  bool causal;  // query i stands at position keys - queries + i
};

// Sequences of more than kRowsPerBlock queries become tiles if `use_tiles` (16-bit types on tensor
// cores), else more rows. This depends on the query's own sequence alone. The longest work comes
// first, so that no block is left alone at the end. A sequence without queries has no work. One
// with queries has at least one key, a causal one at least as many keys as queries. `rows` and
// `tiles` share no slots and tickets.
AttentionPlan plan_attention(std::span<const AttentionSequence> sequences, bool use_tiles);

}  // namespace tandem
