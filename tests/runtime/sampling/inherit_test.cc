// Beams that go on from one another: contents, and how many are copied.
#include "runtime/sampling/inherit.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tandem::inherit_test {
namespace {

struct Counted {
  explicit Counted(int v) : value(v) {}
  Counted(const Counted& other) : value(other.value) { ++copies; }
  Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) {}
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = default;
  int value;
  static inline int copies = 0;
};

TEST(Inherit, CopiesOnlyForFurtherChildren) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const int n = 1 + static_cast<int>(random() % 8);
    std::vector<Counted> items;
    for (int i = 0; i < n; ++i) items.emplace_back(100 + i);
    std::vector<int> parents;
    for (int i = 0; i < n; ++i) parents.push_back(static_cast<int>(random() % unsigned(n)));
    Counted::copies = 0;
    inherit(items, parents);
    ASSERT_EQ(items.size(), parents.size());
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].value, 100 + parents[i]);
    const std::set<int> distinct(parents.begin(), parents.end());
    EXPECT_EQ(Counted::copies, n - static_cast<int>(distinct.size()));
  }
}

}  // namespace
}  // namespace tandem::inherit_test
