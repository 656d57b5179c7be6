// The recorder: bounded, by steps, and readable while it is written.
#include "base/profile/profile.h"

#include <gtest/gtest.h>

#include <thread>

namespace tandem {
namespace {

constexpr SpanKind kKind{"span", "phase", {"number"}};

TEST(ProfileTrack, IsBoundedAndCountsWhatItDrops) {
  ProfileTrack track("thread", 4);
  for (int64_t i = 0; i < 7; ++i) track.add({&kKind, i, i + 1, nullptr, {i}});
  ASSERT_EQ(track.events().size(), 4u);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(track.events()[static_cast<size_t>(i)].numbers[0], i);
  EXPECT_EQ(track.dropped(), 3);
}

// What counts is whole, at any time (ThreadSanitizer looks on).
TEST(ProfileTrack, IsReadWhileItIsWritten) {
  constexpr int64_t kEvents = 20000;
  ProfileTrack track("thread", kEvents);
  std::thread writer([&] {
    for (int64_t i = 0; i < kEvents; ++i) track.add({&kKind, i, i + 1, "word", {i}});
  });
  size_t seen = 0;
  while (seen < kEvents) {
    const auto events = track.events();
    ASSERT_GE(events.size(), seen);
    for (; seen < events.size(); ++seen) {
      ASSERT_EQ(events[seen].numbers[0], static_cast<int64_t>(seen));
      ASSERT_EQ(events[seen].end, static_cast<int64_t>(seen) + 1);
    }
  }
  writer.join();
  EXPECT_EQ(track.dropped(), 0);
}

TEST(Profile, RecordsTheStepsOfItsWindow) {
  Profile profile({2, 3});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0"});
  ASSERT_NE(group, nullptr);
  profile.hold(true);
  const auto run_step = [&](int64_t number) {
    const ProfiledScope scope(group);
    {
      ProfileSpan span(kKind);
      span.say({number});
    }
    group->count_step();
  };
  for (int i = 0; i < 5; ++i) run_step(-1);  // none of them counts
  EXPECT_EQ(profile.last_step(), 0);
  profile.hold(false);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(profile.is_done(), i >= 5) << i;
    run_step(i);
  }
  const auto events = group->find_track(0)->events();
  ASSERT_EQ(events.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[i].numbers[0], static_cast<int64_t>(i) + 2);
    EXPECT_LE(profile.begun(), events[i].begin);
    EXPECT_LE(events[i].begin, events[i].end);
  }
  EXPECT_GE(profile.last_step(), events[2].end);
}

TEST(Profile, SpansOutsideOfScopesAreNobodys) {
  Profile profile({0, 10});
  ProfileGroup* const outer = profile.add_group("a", 1, {"thread 0"});
  ProfileGroup* const inner = profile.add_group("b", 1, {"thread 0"});
  EXPECT_NE(outer->number(), inner->number());
  { const ProfileSpan span(kKind); }
  {
    const ProfiledScope scope(nullptr);
    const ProfileSpan span(kKind);
    EXPECT_FALSE(span.is_recorded());
  }
  {
    const ProfiledScope scope(outer);
    const ProfileSpan span(kKind);
    EXPECT_TRUE(span.is_recorded());
    {
      const ProfiledScope within(inner);
      const ProfileSpan other(kKind);
    }
    const ProfileSpan again(kKind);
    // Another thread is in no scope.
    std::thread([] { EXPECT_FALSE(ProfileSpan(kKind).is_recorded()); }).join();
  }
  EXPECT_EQ(profiled_group, nullptr);
  EXPECT_EQ(outer->find_track(0)->events().size(), 2u);
  EXPECT_EQ(inner->find_track(0)->events().size(), 1u);
  EXPECT_EQ(outer->find_track(1), nullptr);
  EXPECT_EQ(profile.num_events(), 3u);
}

TEST(Profile, GroupsAreBounded) {
  Profile profile({0, 1});
  for (size_t i = 0; i < Profile::kMostGroups; ++i)
    ASSERT_NE(profile.add_group("scheduler", 1, {"scheduler"}), nullptr);
  EXPECT_EQ(profile.add_group("scheduler", 1, {"scheduler"}), nullptr);
  EXPECT_EQ(profile.groups().size(), Profile::kMostGroups);
}

}  // namespace
}  // namespace tandem
