// What happens next in a random test: the same for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace tandem::testing_support {

class Dice {
 public:
  explicit Dice(uint32_t seed) : rng_(seed) {}

  int uniform(int low, int high) { return std::uniform_int_distribution(low, high)(rng_); }
  bool one_in(int n) { return uniform(1, n) == 1; }
  int pick(const std::vector<int>& values) {
    return values[static_cast<size_t>(uniform(0, static_cast<int>(values.size()) - 1))];
  }

 private:
  std::mt19937 rng_;
};

}  // namespace tandem::testing_support
