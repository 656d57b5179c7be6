// Segments and the next window, by hand and against a plain version of HuggingFace's loop.
#include "runtime/media/sound/segments.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kT = 100;  // the time 0

struct Want {
  double start, end;
  Ids ids;
};

void expect(const Ids& tokens, const SpeechWindow& window, const std::vector<Want>& want,
            int64_t frames) {
  const WindowSegments got = split_segments(tokens, kT, window, 2);
  EXPECT_EQ(got.frames, frames);
  ASSERT_EQ(got.segments.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.segments[i].start(), want[i].start, 1e-9) << i;
    EXPECT_NEAR(got.segments[i].end(), want[i].end, 1e-9) << i;
    EXPECT_EQ(Ids(got.segments[i].token_ids().begin(), got.segments[i].token_ids().end()),
              want[i].ids)
        << i;
  }
}

TEST(Segments, WithoutTimesAreTheWholeWindow) {
  expect({1, 2, 3}, {0, 3000}, {{0, 30, {1, 2, 3}}}, 3000);
  expect({}, {500, 700}, {{5, 12, {}}}, 700);
  expect({kT, 1, 2}, {0, 3000}, {{0, 30, {kT, 1, 2}}}, 3000);  // the time 0 says nothing
  // 16.4 s are 820 times of 0.02 s in floats, as HuggingFace divides; in doubles 819.
  expect({1}, {1360, 1640}, {{13.6, 30, {1}}}, 1640);
}

TEST(Segments, ALastTimeEndsTheOnlyOne) {
  expect({kT, 1, 2, kT + 50}, {1000, 3000}, {{10, 11, {kT, 1, 2, kT + 50}}}, 3000);
}

TEST(Segments, PairsDivide) {
  expect({kT, 1, kT + 50, kT + 60, 2, kT + 100}, {0, 3000},
         {{0, 1, {kT, 1, kT + 50}}, {1.2, 2, {kT + 60, 2, kT + 100}}}, 3000);
  // The last one is cut off: the next window begins where it did.
  expect({kT, 1, kT + 50, kT + 60, 2}, {0, 3000}, {{0, 1, {kT, 1, kT + 50, kT + 60}}}, 100);
  expect({kT, 1, kT + 50, kT + 50}, {200, 3000}, {{2, 3, {kT, 1, kT + 50, kT + 50}}}, 100);
}

TEST(Segments, APairAtTheBeginningOfTheWindow) {
  expect({1, kT, kT, 2}, {0, 3000}, {{-1.98, 0, {1, kT, kT}}}, 0);
}

}  // namespace
}  // namespace tandem
