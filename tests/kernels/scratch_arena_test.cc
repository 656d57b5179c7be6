// The arena against a model that knows one owner for each unit of each segment.
#include "kernels/core/scratch_arena.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::scratch_arena_test {
namespace {

using testing::Random;
using Place = ScratchArena::Place;

constexpr size_t kUnit = ScratchArena::kAlignment;

struct Piece {
  Place place;
  size_t units;
  uint64_t epoch;
};

// First fit, unit by unit.
class NaiveArena {
 public:
  void add(size_t bytes) { taken_.emplace_back(bytes / kUnit, false); }
  bool allocate(size_t bytes, Place& place) {
    const size_t units = std::max<size_t>(1, (bytes + kUnit - 1) / kUnit);
    for (size_t s = 0; s < taken_.size(); ++s)
      for (size_t at = 0; at + units <= taken_[s].size(); ++at)
        if (std::find(taken_[s].begin() + static_cast<long>(at),
                      taken_[s].begin() + static_cast<long>(at + units),
                      true) == taken_[s].begin() + static_cast<long>(at + units)) {
          set({s, at * kUnit}, units, true);
          place = {s, at * kUnit};
          return true;
        }
    return false;
  }
  void set(const Place& place, size_t units, bool taken) {
    std::fill_n(taken_[place.segment].begin() + static_cast<long>(place.offset / kUnit), units,
                taken);
  }
  void reset() {
    for (auto& segment : taken_) std::fill(segment.begin(), segment.end(), false);
  }
  size_t used() const {
    size_t units = 0;
    for (const auto& s : taken_) units += static_cast<size_t>(std::count(s.begin(), s.end(), true));
    return units * kUnit;
  }

 private:
  std::vector<std::vector<bool>> taken_;
};

TEST(ScratchArena, IsFirstFit) {
  Random random;
  for (int run = 0; run < 20; ++run) {
    ScratchArena arena;
    NaiveArena naive;
    std::vector<Piece> pieces;
    size_t most = 0;
    for (int i = 0; i < 400; ++i) {
      const int64_t what = random.integer(0, 99);
      if (arena.segments() == 0 || what == 0) {
        const size_t bytes = kUnit + static_cast<size_t>(random.integer(0, 40 * kUnit));
        arena.add_segment(bytes);
        naive.add(bytes);
      } else if (what == 1) {
        arena.reset();
        naive.reset();
        most = 0;
      } else if (what < 60 || pieces.empty()) {
        const auto bytes = static_cast<size_t>(random.integer(0, 9 * kUnit));
        Place got, want;
        const bool there = naive.allocate(bytes, want);
        ASSERT_EQ(arena.allocate(bytes, got), there);
        if (there) {
          ASSERT_EQ(got, want) << "segment " << got.segment << ", offset " << got.offset;
          pieces.push_back({got, std::max<size_t>(1, (bytes + kUnit - 1) / kUnit), arena.epoch()});
        }
      } else {  // some of earlier epochs, which must change nothing
        const auto at = pieces.begin() + random.integer(0, std::ssize(pieces) - 1);
        arena.release(at->place, at->epoch);
        if (at->epoch == arena.epoch()) naive.set(at->place, at->units, false);
        pieces.erase(at);
      }
      arena.check_integrity();
      ASSERT_EQ(arena.used(), naive.used());
      most = std::max(most, naive.used());
      ASSERT_GE(arena.most_used(), most);
    }
  }
}

// Recorded steps rely on it: the same calls since the reset give the same places, whatever was
// there before it and whatever segments have come since.
TEST(ScratchArena, TheSameCallsGiveTheSamePlaces) {
  Random random;
  ScratchArena arena;
  arena.add_segment(64 * kUnit);
  std::vector<size_t> sizes;
  for (int i = 0; i < 30; ++i) sizes.push_back(static_cast<size_t>(random.integer(0, 4 * kUnit)));
  std::map<size_t, Place> first;
  for (int round = 0; round < 10; ++round) {
    arena.reset();
    std::vector<Place> held;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Place place;
      if (round > 0 && !first.contains(i)) break;  // there was no room, which grows
      if (!arena.allocate(sizes[i], place)) break;
      if (round == 0) first[i] = place;
      ASSERT_EQ(place, first.at(i)) << "round " << round << ", call " << i;
      held.push_back(place);
      if (i % 3 == 2) {  // the middle one of each three is given back
        arena.release(held[i - 1], arena.epoch());
      }
    }
    ASSERT_GT(held.size(), 10u);
    arena.check_integrity();
    Place noise;
    while (random.integer(0, 4) > 0)
      arena.allocate(static_cast<size_t>(random.integer(0, 9 * kUnit)), noise);
    arena.add_segment(static_cast<size_t>(random.integer(1, 9)) * kUnit);
  }
}

TEST(ScratchArenaDeathTest, APlaceIsGivenBackOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ScratchArena arena;
  arena.add_segment(16 * kUnit);
  Place place;
  ASSERT_TRUE(arena.allocate(100, place));
  arena.release(place, arena.epoch());
  EXPECT_DEATH(arena.release(place, arena.epoch()), "not in use");
}

}  // namespace
}  // namespace tandem::scratch_arena_test
