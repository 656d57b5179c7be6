// How n items (heads, features, ids of a vocabulary) are spread over ranks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace tandem {

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  Range operator*(int64_t k) const { return {begin * k, end * k}; }
};

// Contiguous parts that differ by at most one; the first n % ranks ranks have one more. With fewer
// things than ranks the last ranks have none.
inline Range shard_range(int64_t n, int rank, int ranks) {
  TANDEM_CHECK_LE(0, rank);
  TANDEM_CHECK_LT(rank, ranks);
  const int64_t share = n / ranks, more = n % ranks;
  const int64_t begin = rank * share + std::min<int64_t>(rank, more);
  return {begin, begin + share + (rank < more ? 1 : 0)};
}

// Heads of one rank: of queries, and those of keys and values that they read.
struct HeadShard {
  Range queries, keys;
};

// REQUIRES: `heads` is a multiple of kv_heads. Query head h reads head h / (heads / kv_heads), also
// on each rank, counted from its first heads. With fewer heads of keys than ranks, several ranks
// have the same head and share the queries that read it.
inline HeadShard shard_heads(int64_t heads, int64_t kv_heads, int rank, int ranks) {
  if (heads == kv_heads) {
    const Range all = shard_range(heads, rank, ranks);
    return {all, all};
  }
  TANDEM_CHECK_EQ(heads % kv_heads, int64_t{0});
  const int64_t group = heads / kv_heads;
  if (ranks <= kv_heads) {
    const Range keys = shard_range(kv_heads, rank, ranks);
    return {keys * group, keys};
  }
  const int64_t head = rank * kv_heads / ranks;
  const auto first_rank = [&](int64_t h) {  // that has head h
    return static_cast<int>((h * ranks + kv_heads - 1) / kv_heads);
  };
  const int first = first_rank(head), sharing = first_rank(head + 1) - first;
  const Range part = shard_range(group, rank - first, sharing);
  const int64_t before = head * group;
  return {{before + part.begin, before + part.end}, {head, head + (part.size() > 0 ? 1 : 0)}};
}

}  // namespace tandem
