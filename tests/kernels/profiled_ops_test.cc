// Spans of ops and of the pool's threads: there while steps are recorded, and without any effect on
// what is computed.
#include "kernels/profiled_ops.h"

#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::profiled_ops_test {
namespace {

using testing::Random;
using testing::same_bits;
using testing::view_of;

std::vector<SpanEvent> of_category(const ProfileTrack& track, std::string_view category) {
  std::vector<SpanEvent> out;
  for (const SpanEvent& e : track.events())
    if (e.kind->category == category) out.push_back(e);
  return out;
}

class ProfiledOps : public ::testing::TestWithParam<int> {
 protected:
  ProfiledOps() : group_(profile_.add_group("rank 0", 1, names())), ctx_(GetParam()) {}

  static std::vector<std::string> names() {
    std::vector<std::string> out;
    for (int i = 0; i < GetParam(); ++i) out.push_back("thread " + std::to_string(i));
    return out;
  }

  Profile profile_{{0, 1000}};  // outlives the pool
  ProfileGroup* group_;
  Context ctx_;
};

TEST_P(ProfiledOps, HaveSpansWithTheirShapesAndTheSameBits) {
  Random random;
  const Tensor w = random.matrix(300, 200), x = random.matrix(9, 200);
  const MatrixView view = view_of(w);
  const PackedWeight weight(ctx_, {&view, 1}, DType::kF32);
  const Tensor norm_weight = random.vector(300), norm_bias = random.vector(300);
  const auto run = [&] {
    const Tensor out({9, 300}, DType::kF32);
    ops::linear(ctx_, {&weight, x, {}, Activation::kNone, out});
    ops::layer_norm(ctx_, {out, {}, norm_weight, norm_bias, 1e-5f, out});
    return out;
  };
  const Tensor plain = run();
  EXPECT_EQ(profile_.num_events(), 0u);
  Tensor recorded;
  {
    const ProfiledScope scope(group_);
    EXPECT_EQ(&ops_of(ctx_), &kProfiledOps);
    recorded = run();
  }
  EXPECT_EQ(&ops_of(ctx_), &kCpuOps);
  EXPECT_TRUE(same_bits(recorded, plain));
  const auto spans = of_category(*group_->find_track(0), "op");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_STREQ(spans[0].kind->name, "linear");
  EXPECT_EQ(spans[0].numbers, (std::array<int64_t, 4>{9, 200, 300}));
  EXPECT_STREQ(spans[0].word, "float32");
  EXPECT_STREQ(spans[1].kind->name, "layer_norm");
  EXPECT_EQ(spans[1].numbers, (std::array<int64_t, 4>{9, 300}));
  EXPECT_LE(spans[0].end, spans[1].begin);
  // What threads did for the product lies within its span, but for a wait that began before.
  for (int i = 0; i < group_->threads(); ++i)
    for (const SpanEvent& e : of_category(*group_->find_track(i), "pool")) {
      EXPECT_GE(e.begin, spans[0].begin);
      EXPECT_LE(e.end, spans[1].end);
    }
}

// All tasks of all regions are somebody's, and a thread does one thing at a time.
TEST_P(ProfiledOps, ThreadsSayHowManyTasksTheyTookAndWhenTheyWaited) {
  constexpr int kRegions = 300, kTasks = 23;
  std::atomic<int64_t> sum{0};
  {
    const ProfiledScope scope(group_);
    for (int i = 0; i < kRegions; ++i)
      ctx_.pool().run(kTasks, [&](int64_t, int) { sum.fetch_add(1); });
  }
  EXPECT_EQ(sum, kRegions * kTasks);
  ctx_.pool().run(kTasks, [&](int64_t, int) { sum.fetch_add(1); });  // nobody's business
  int64_t tasks = 0;
  const auto count = [&] {
    tasks = 0;
    for (int i = 0; i < group_->threads(); ++i)
      for (const SpanEvent& e : of_category(*group_->find_track(i), "pool")) tasks += e.numbers[0];
    return tasks;
  };
  if (GetParam() == 1) {
    EXPECT_EQ(count(), 0) << "one thread has no regions";
    return;
  }
  // A worker says it after the region has ended.
  for (int i = 0; i < 1000 && count() < kRegions * kTasks; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(tasks, kRegions * kTasks);
  EXPECT_EQ(of_category(*group_->find_track(0), "wait").size(), size_t{kRegions});
  // A worker that had a task has waited since recording began, whenever it was not at work.
  const int64_t begun = group_->find_track(0)->events()[0].begin;
  for (int i = 1; i < group_->threads(); ++i) {
    int64_t at = begun;
    for (const SpanEvent& e : group_->find_track(i)->events()) {
      EXPECT_EQ(e.begin, at);
      at = e.end;
    }
  }
  for (int i = 0; i < group_->threads(); ++i) {
    int64_t last = profile_.begun();
    for (const SpanEvent& e : group_->find_track(i)->events()) {
      EXPECT_LE(last, e.begin);
      EXPECT_LE(e.begin, e.end);
      last = e.end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ProfiledOps, ::testing::Values(1, 2, 4));

TEST(ProfiledOpsTable, HasEveryOp) {
#define TANDEM_CHECK_ENTRY(name, Args, file) EXPECT_NE(kProfiledOps.name, nullptr) << #name;
  TANDEM_OPS(TANDEM_CHECK_ENTRY)
#undef TANDEM_CHECK_ENTRY
}

}  // namespace
}  // namespace tandem::profiled_ops_test
