// The file: valid whatever names hold, spans nested as they were, while threads record or after.
#include "base/profile/trace_json.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <thread>

#include "tests/support/files/trace.h"

namespace tandem {
namespace {

constexpr SpanKind kTraceStep{"step", "step", {"sequences"}};
constexpr SpanKind kOp{"linear", "op", {"rows", "in", "out"}, "dtype"};

std::string text_of(const Profile& profile,
                    const std::vector<std::pair<std::string, std::string>>& notes = {}) {
  std::string text;
  write_trace(profile, notes, [&](std::string_view piece) { text += piece; });
  return text;
}

TEST(TraceJson, SaysWhatWasRecorded) {
  Profile profile({0, 10});
  ProfileGroup* const group =
      profile.add_group("rank \"0\"\n\\ \xff", 7, {"thread \t0", "thread 1"});
  const int64_t t = profile.begun();
  group->find_track(0)->add({&kOp, t + 1500, t + 2001, "int8", {8, 768, 3072}});
  group->find_track(0)->add({&kTraceStep, t + 1500, t + 4000, "encode+decode", {8}});
  group->find_track(1)->add({&kTraceStep, t + 10, t + 10, nullptr, {1}});
  const test::Trace trace = test::read_trace(text_of(profile, {{"pro\"gram", "tandem \x01"}}));
  EXPECT_EQ(trace.groups.at(7), "rank \"0\"\n\\ \xef\xbf\xbd");
  EXPECT_EQ(trace.threads.at({7, 1}), "thread \t0");
  EXPECT_EQ(trace.notes.at("pro\"gram"), "tandem \x01");
  EXPECT_EQ(trace.notes.at("dropped_spans"), "0");
  const auto& spans = trace.spans.at({7, 1});
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "encode+decode") << "what holds the other comes first";
  EXPECT_EQ(spans[0].args, (nlohmann::json{{"sequences", 8}}));
  EXPECT_EQ(spans[1].name, "linear");
  EXPECT_EQ(spans[1].begin, 1500);
  EXPECT_EQ(spans[1].end, 2001);
  EXPECT_EQ(spans[1].args,
            (nlohmann::json{{"rows", 8}, {"in", 768}, {"out", 3072}, {"dtype", "int8"}}));
  EXPECT_EQ(trace.spans.at({7, 2})[0].name, "step");
  EXPECT_EQ(trace.spans.at({7, 2})[0].end, 10);
}

TEST(TraceJson, SaysHowManySpansWereDropped) {
  Profile profile({0, 1});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0"});
  const int64_t t = profile.begun();
  while (group->find_track(0)->dropped() < 3)
    group->find_track(0)->add({&kTraceStep, t, t + 1, nullptr, {1}});
  const test::Trace trace = test::read_trace(text_of(profile));
  EXPECT_EQ(trace.notes.at("dropped_spans"), "3");
  EXPECT_EQ(trace.threads.at({1, 1}), "thread 0 (3 spans dropped)");
  EXPECT_EQ(trace.spans.at({1, 1}).size(), group->find_track(0)->events().size());
}

TEST(TraceJson, OfNothingIsATrace) {
  EXPECT_TRUE(test::read_trace(text_of(Profile({0, 1}))).spans.empty());
}

// A tree of spans, ended from within; many begin or end together.
void add_tree(ProfileTrack& track, std::mt19937_64& random, int64_t begin, int64_t end, int depth) {
  int64_t at = begin;
  while (depth > 0 && at < end) {
    const auto step = static_cast<int64_t>(random() % 40);
    const int64_t to = std::min(end, at + step);
    add_tree(track, random, at, to, depth - 1);
    at = to + static_cast<int64_t>(random() % 3);
  }
  track.add({&kTraceStep, begin, end, nullptr, {depth}});
}

TEST(TraceJson, KeepsTheNestingOfAnySpans) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed: " << seed << "\n";
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    Profile profile({0, 10});
    ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0", "thread 1"});
    for (int i = 0; i < 2; ++i)
      add_tree(*group->find_track(i), random, profile.begun() + 5, profile.begun() + 205, 3);
    const test::Trace trace = test::read_trace(text_of(profile));
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(trace.spans.at({1, i + 1}).size(), group->find_track(i)->events().size());
  }
}

TEST(TraceJson, IsWrittenWhileThreadsRecord) {
  Profile profile({0, 100});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0", "thread 1"});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      for (int64_t n = 0; n < 5000 && !stop; ++n) {
        const int64_t begin = profile_clock();
        group->find_track(i)->add({&kTraceStep, begin, profile_clock(), nullptr, {n}});
      }
    });
  size_t before = 0;
  for (int round = 0; round < 5; ++round) {
    const test::Trace trace = test::read_trace(text_of(profile));
    size_t count = 0;
    for (const auto& [place, spans] : trace.spans) count += spans.size();
    EXPECT_GE(count, before);
    before = count;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace tandem
