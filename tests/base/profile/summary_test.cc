// Figures of a profile that was made by hand.
#include "base/profile/summary.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

constexpr SpanKind kStep{"step", "step", {"sequences"}};
constexpr SpanKind kLinear{"linear", "op", {"rows", "in", "out"}, "dtype"};
constexpr SpanKind kNorm{"layer_norm", "op", {"rows", "columns"}};
constexpr SpanKind kReduce{"all_reduce", "collective", {"bytes"}};
constexpr SpanKind kForRanks{"wait for ranks", "rank wait"};
constexpr SpanKind kForStages{"wait for stages", "stage wait"};
constexpr SpanKind kShare{"tasks", "pool", {"tasks"}};
constexpr SpanKind kWait{"wait", "wait"};
constexpr SpanKind kSchedule{"schedule", "engine"};

// Two steps of 100 ns, 50 apart. In each: a product of 60 (all of it a region; thread 0 works 40
// and waits 20, thread 1 comes 10 late, works 50), a norm of 10 that thread 0 does alone, a
// collective of 20, half of it waiting; 10 between.
void add_steps(ProfileGroup& group, int64_t begun) {
  ProfileTrack& one = *group.find_track(0);
  ProfileTrack& two = *group.find_track(1);
  for (int64_t step = 0; step < 2; ++step) {
    const int64_t t = begun + 1000 + step * 150;
    one.add({&kShare, t, t + 40, nullptr, {3}});
    one.add({&kWait, t + 40, t + 60, nullptr, {}});
    one.add({&kLinear, t, t + 60, "int8", {8, 768, 3072}});
    one.add({&kNorm, t + 60, t + 70, nullptr, {8, 768}});
    one.add({&kForRanks, t + 75, t + 85, nullptr, {}});
    one.add({&kReduce, t + 70, t + 90, nullptr, {24}});
    one.add({&kStep, t, t + 100, step == 0 ? "encode" : "decode", {8}});
    two.add({&kWait, t - 90, t + 10, nullptr, {}});
    two.add({&kShare, t + 10, t + 60, nullptr, {5}});
  }
  two.add({&kWait, begun + 1210, begun + 1400, nullptr, {}});
}

TEST(ProfileSummary, CountsBusyAndWaitingTime) {
  Profile profile({0, 10});
  ProfileGroup* const group = profile.add_group("rank 0", 1000, {"thread 0", "thread 1"});
  add_steps(*group, profile.begun());
  ProfileGroup* const scheduler = profile.add_group("scheduler", 1, {"scheduler"});
  for (int i = 0; i < 3; ++i)
    scheduler->find_track(0)->add({&kSchedule, profile.begun(), profile.begun() + 7, nullptr, {}});
  const ProfileSummary summary = summarize_profile(profile);
  ASSERT_EQ(summary.ranks.size(), 1u);
  const RankSummary& rank = summary.ranks[0];
  EXPECT_EQ(rank.time, 200);
  EXPECT_EQ(rank.span, 250);
  ASSERT_EQ(rank.steps.size(), 2u);
  ASSERT_EQ(rank.ops.size(), 3u);
  EXPECT_EQ(rank.ops[0].name, "linear 768x3072");
  EXPECT_EQ(rank.ops[0].calls, 2);
  EXPECT_EQ(rank.ops[0].time, 120);
  EXPECT_EQ(rank.ops[0].waiting, 2 * (20 + 10));
  EXPECT_EQ(rank.ops[1].name, "all_reduce");
  EXPECT_EQ(rank.ops[2].name, "layer_norm");
  EXPECT_EQ(rank.between_ops, 20);
  EXPECT_EQ(rank.threads[0].busy, 2 * (100 - 20 - 10));
  EXPECT_EQ(rank.threads[0].at_barriers, 40);
  EXPECT_EQ(rank.threads[0].for_one, 0);
  EXPECT_EQ(rank.threads[0].for_ranks, 20);
  EXPECT_EQ(rank.threads[1].busy, 100);
  EXPECT_EQ(rank.threads[1].at_barriers, 20);
  // Behind its tasks to the end of each step.
  EXPECT_EQ(rank.threads[1].for_one, 40 + 40);
  EXPECT_DOUBLE_EQ(rank.share_at_barriers(), 60.0 / 400);
  EXPECT_DOUBLE_EQ(rank.share_for_one(), 80.0 / 400);
  ASSERT_EQ(summary.engine.size(), 1u);
  EXPECT_EQ(summary.engine[0].calls, 3);
  EXPECT_EQ(summary.engine[0].time, 21);
  const std::string text = format_summary(summary);
  EXPECT_NE(text.find("Profile of rank 0: 2 steps"), std::string::npos) << text;
  EXPECT_NE(text.find("15.0% at barriers, 20.0% for one thread's work\n"), std::string::npos)
      << text;
}

// A thread that never had a task has waited all the time.
TEST(ProfileSummary, AThreadWithoutSpansHasWaited) {
  Profile profile({0, 10});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0", "thread 1", "thread 2"});
  add_steps(*group, profile.begun());
  const ProfileSummary summary = summarize_profile(profile);
  const RankSummary::Thread& thread = summary.ranks[0].threads[2];
  EXPECT_EQ(thread.busy, 0);
  EXPECT_EQ(thread.at_barriers, 120);
  EXPECT_EQ(thread.for_one, 80);
}

TEST(ProfileSummary, LeavesOutStepsOfWhichSpansWereDropped) {
  Profile profile({0, 1});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0", "thread 1"});
  add_steps(*group, profile.begun());
  ProfileTrack& worker = *group->find_track(1);
  // The worker's track is full within a third step.
  const int64_t t = profile.begun() + 1300;
  for (int64_t i = 0; worker.dropped() == 0; ++i)
    worker.add({&kShare, t + i, t + i + 1, nullptr, {1}});
  group->find_track(0)->add({&kStep, t, t + 1'000'000, nullptr, {8}});
  const ProfileSummary summary = summarize_profile(profile);
  ASSERT_EQ(summary.ranks.size(), 1u);
  EXPECT_EQ(summary.ranks[0].time, 200);
  EXPECT_NE(format_summary(summary).find("1 spans were dropped"), std::string::npos);
}

// Between the steps, and within them for others: 50 ns, and 15 and 5 of 250.
TEST(ProfileSummary, TellsHowLongARankOfAPipelineIsIdle) {
  Profile profile({0, 10});
  ProfileGroup* const stage = profile.add_group("rank 0", 0, {"thread 0", "thread 1"});
  ProfileGroup* const other = profile.add_group("rank 1", 1, {"thread 0", "thread 1"});
  for (ProfileGroup* group : {stage, other}) add_steps(*group, profile.begun());
  ProfileTrack& track = *stage->find_track(0);
  const int64_t t = profile.begun() + 1000;
  track.add({&kForStages, t + 70, t + 85, nullptr, {}});
  track.add({&kForStages, t + 75, t + 80, nullptr, {}});    // counts once
  track.add({&kForStages, t + 245, t + 260, nullptr, {}});  // a part is behind the step
  const ProfileSummary summary = summarize_profile(profile);
  ASSERT_EQ(summary.ranks.size(), 2u);
  EXPECT_TRUE(summary.ranks[0].in_pipeline);
  EXPECT_EQ(summary.ranks[0].for_stages, 15 + 5);
  EXPECT_DOUBLE_EQ(summary.ranks[0].share_idle(), 70.0 / 250);
  EXPECT_FALSE(summary.ranks[1].in_pipeline);
  const std::string text = format_summary(summary), line = "Idle, of the time";
  const size_t at = text.find(line);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.find("28.0%: 20.0% between steps, 8.0% for other stages\n", at), std::string::npos)
      << text;
  EXPECT_EQ(text.find(line, at + 1), std::string::npos) << "of rank 1 there is nothing to say";
}

TEST(ProfileSummary, OfNothingIsEmpty) {
  EXPECT_EQ(format_summary(summarize_profile(Profile({0, 1}))), "");
}

}  // namespace
}  // namespace tandem
