// Collectives in a profile: a span for each, and within it the waiting for other ranks.
#include <gtest/gtest.h>

#include <string_view>

#include "base/profile/profile.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

TEST(ProfiledCollectives, HaveSpansWithTheirBytesAndTheirWaiting) {
  constexpr int kRanks = 3;
  Profile profile({0, 10});
  std::vector<ProfileGroup*> groups;
  for (int rank = 0; rank < kRanks; ++rank)
    groups.push_back(profile.add_group("rank " + std::to_string(rank), rank, {"thread 0"}));
  const auto errors = testing::run_ranks(kRanks, {}, [&](Communicator& comm) {
    comm.barrier();  // not recorded
    const ProfiledScope scope(groups[static_cast<size_t>(comm.rank())]);
    const Tensor x = Tensor::zeros({5, 2}, DType::kF32), all({15, 2}, DType::kF32);
    comm.all_reduce(x);
    comm.all_gather(x, all);
    comm.barrier();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  for (ProfileGroup* group : groups) {
    const auto events = group->find_track(0)->events();
    ASSERT_EQ(events.size(), 6u);
    const char* const names[] = {"all_reduce", "all_gather", "barrier"};
    const int64_t bytes[] = {40, 40, 0};
    for (size_t i = 0; i < 3; ++i) {
      const SpanEvent &wait = events[2 * i], &call = events[2 * i + 1];
      EXPECT_EQ(std::string_view(wait.kind->category), "rank wait");
      EXPECT_STREQ(call.kind->name, names[i]);
      EXPECT_EQ(call.numbers[0], bytes[i]);
      EXPECT_LE(call.begin, wait.begin);
      EXPECT_LE(wait.end, call.end);
    }
  }
}

}  // namespace
}  // namespace tandem
