// How many tokens steps have, as Prometheus counts it (vLLM's iteration_tokens_total). Synchronous.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {

class TokenHistogram {
 public:
  // The largest number of each bucket; the last one has no bound.
  static constexpr std::array<int64_t, 13> kBounds{1,   8,    16,   32,   64,   128,  256,
                                                   512, 1024, 2048, 4096, 8192, 16384};

  void observe(int64_t tokens) {
    const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), tokens);
    ++counts_[static_cast<size_t>(bucket - kBounds.begin())];
    sum_ += tokens;
  }
  // Of each bucket alone.
  const std::array<int64_t, kBounds.size() + 1>& counts() const { return counts_; }
  int64_t sum() const { return sum_; }

 private:
  std::array<int64_t, kBounds.size() + 1> counts_{};
  int64_t sum_ = 0;
};

}  // namespace tandem
