// How n things (heads, features, ids of a vocabulary) are spread over ranks.
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

}  // namespace tandem
