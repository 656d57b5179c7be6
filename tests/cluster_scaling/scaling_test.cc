// Strong scaling (one batch on more ranks) and weak scaling (a batch that grows with the ranks) in
// every layout of tensor, pipeline and data parallelism. The tokens do not depend on it, and each
// rank's step multiplies, reads and exchanges what benchmarks/support/scaling_work.h counts. Times
// are printed, not checked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/profile/profile.h"
#include "benchmarks/support/random_bart.h"
#include "benchmarks/support/scaling_ranks.h"
#include "benchmarks/support/scaling_report.h"

namespace tandem::bench {
namespace {

// 6 heads: they do not divide evenly by 4 ranks, nor does the vocabulary.
constexpr random_bart::Size kSize{2, 192, 6, 768, 2047, 128};
constexpr const char* kLayouts[] = {"1",   "tp2", "pp2", "dp2",    "tp3",    "pp3",
                                    "tp4", "pp4", "dp4", "tp2pp2", "tp2dp2", "pp2dp2"};

// What a step's ops did.
struct Done {
  int64_t products = 0, weight_bytes = 0, queries = 0, written = 0;  // written: elements of keys
};

Done done_in(std::span<const SpanEvent> events, int64_t vocabulary) {
  Done done;
  for (const SpanEvent& event : events) {
    const std::string_view name = event.kind->name;
    const auto& [rows, columns, third, fourth] = event.numbers;
    if (name == "linear" || name == "linear_best") {
      const int64_t out = name == "linear" ? third : vocabulary;
      done.products += rows * columns * out;
      if (rows > 0) done.weight_bytes += columns * out * 4;
    } else if (name == "ragged_attention" || name == "paged_attention") {
      done.queries += rows * third * fourth;
    } else if (name == "write_kv") {
      done.written += rows * columns;
    }
  }
  return done;
}

// Each rank's steps as its profile has them.
class Watch {
 public:
  Watch(int ranks, int64_t vocabulary) : vocabulary_(vocabulary), done(static_cast<size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r)
      groups_.push_back(profile_.add_group("rank " + std::to_string(r), r + 1, {"thread 0"}));
  }
  ScalingRank::AroundStep around(int rank) {
    const auto r = static_cast<size_t>(rank);
    return [this, r](const std::function<void()>& step) {
      const ProfileTrack& track = groups_[r]->track(0);
      const size_t before = track.events().size();
      {
        const ProfiledScope scope(groups_[r]);
        step();
      }
      ASSERT_EQ(track.dropped(), 0);
      done[r].push_back(done_in(track.events().subspan(before), vocabulary_));
      groups_[r]->count_step();
    };
  }

 private:
  Profile profile_{{.skip = 0, .steps = 1000}};
  std::vector<ProfileGroup*> groups_;
  int64_t vocabulary_;

 public:
  std::vector<std::vector<Done>> done;  // by rank, by step
};

class ScalingTest : public ::testing::Test {
 protected:
  using Tokens = std::vector<std::vector<int32_t>>;

  static void SetUpTestSuite() {
    model_ = std::filesystem::temp_directory_path() /
             ("tandem-scaling-test-" + std::to_string(getpid()));
    random_bart::write(model_, kSize, 7);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(model_); }

  static LayoutRun prepared(const std::string& name, int batch) {
    const ScalingLayout layout = parse_layout(name);
    return prepare_run(model_, layout,
                       {.batch = batch / layout.dp, .source_tokens = 24, .new_tokens = 12});
  }

  // Of all groups, as their last stages say them; its ranks agree.
  static Tokens tokens_of(const LayoutRun& run, const std::vector<RankResult>& ranks) {
    Tokens out;
    const int group = run.layout.group();
    for (int first = 0; first < run.layout.ranks(); first += group) {
      const auto& last = ranks.at(static_cast<size_t>(first + group - run.layout.tp)).tokens;
      EXPECT_EQ(ranks.at(static_cast<size_t>(first + group - 1)).tokens, last);
      out.insert(out.end(), last.begin(), last.end());
    }
    return out;
  }

  static void print(const char* kind, const LayoutRun& run, const std::vector<RankResult>& ranks) {
    const RoundTimes times = times_of(run, ranks, 0, run.plan.steps.size());
    std::printf("%s, %-6s batch %2d: %3zu steps, %6.1f ms encoding, %6.1f ms decoding\n", kind,
                run.layout.name().c_str(), run.shape.batch * run.layout.dp, run.plan.steps.size(),
                times.encoding * 1e3, times.decoding * 1e3);
  }

  inline static std::filesystem::path model_;
};

// The model's counts of all ranks together: no layout multiplies more, or attends to more.
struct Totals {
  int64_t products = 0, queries = 0, pairs = 0, kv_bytes = 0;
  bool operator==(const Totals&) const = default;
};

// Every rank's every step; of keys, those that were written before.
Totals expect_counted(const LayoutRun& run, const std::vector<std::vector<Done>>& done) {
  Totals totals;
  const auto work = work_of(run);
  for (size_t r = 0; r < work.size(); ++r) {
    int64_t written = 0;
    EXPECT_EQ(done[r].size(), work[r].size());
    for (size_t i = 0; i < work[r].size(); ++i) {
      const StepWork& model = work[r][i];
      const Done& own = done[r][i];
      const std::string where =
          run.layout.name() + ", rank " + std::to_string(r) + ", step " + std::to_string(i);
      EXPECT_EQ(model.products, own.products) << where;
      EXPECT_EQ(model.weight_bytes, own.weight_bytes) << where;
      EXPECT_EQ(model.queries, own.queries) << where;
      // Without stages every sequence is in every step, and reads all that has been written.
      written += own.written;
      if (run.layout.pp == 1) {
        EXPECT_EQ(model.kv_bytes, written * 2 * 4) << where;
      }
      totals.products += model.products;
      totals.queries += model.queries;
      totals.pairs += model.pairs;
      totals.kv_bytes += model.kv_bytes;
    }
  }
  return totals;
}

TEST_F(ScalingTest, StrongInEveryLayout) {
  constexpr int kBatch = 8;
  std::optional<Totals> first;
  Tokens tokens;
  for (const char* const name : kLayouts) {
    const LayoutRun run = prepared(name, kBatch);
    Watch watch(run.layout.ranks(), kSize.vocab);
    const auto ranks = run_as_threads(run, [&](int rank) { return watch.around(rank); });
    print("strong", run, ranks);
    EXPECT_NO_THROW(check_traffic(run, ranks));
    const Totals totals = expect_counted(run, watch.done);
    if (!first) {
      first = totals;
      tokens = tokens_of(run, ranks);
      EXPECT_NE(tokens[0], tokens[1]);
    }
    EXPECT_EQ(totals, *first) << name;
    EXPECT_EQ(tokens_of(run, ranks), tokens) << name;
    for (const auto& of_request : tokens) EXPECT_EQ(of_request.size(), size_t{12});
  }
}

TEST_F(ScalingTest, WeakInEveryLayoutOfProcesses) {
  for (const char* const name : kLayouts) {
    const LayoutRun run = prepared(name, 2 * parse_layout(name).ranks());
    const auto ranks = run_as_processes(run);
    print("weak", run, ranks);
    EXPECT_NO_THROW(check_traffic(run, ranks));
    const LayoutRun alone = prepared("1", 2 * run.layout.ranks());
    EXPECT_EQ(tokens_of(run, ranks), tokens_of(alone, run_as_threads(alone))) << name;
  }
}

TEST_F(ScalingTest, RoundsAreAlike) {
  LayoutRun run = prepared("tp2pp2", 4);
  run.shape.rounds = 3;
  run.plan = plan_steps(run.shape, run.layout.pp);
  const auto ranks = run_as_threads(run);
  EXPECT_NO_THROW(check_traffic(run, ranks));
  const Tokens tokens = tokens_of(run, ranks);
  ASSERT_EQ(tokens.size(), size_t{12});
  for (size_t i = 4; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], tokens[i - 4]);
}

TEST(ScalingLayouts, Names) {
  for (const char* const name : kLayouts) EXPECT_EQ(parse_layout(name).name(), name);
  EXPECT_EQ(parse_layout("pp2dp2", {{9, 2, 2, 1}, {11, 3}}).layers, (std::vector{11, 3}));
  for (const char* const wrong : {"", "2", "tp", "tpx", "xp2", "tp0", "tp99", "tp4pp4"})
    EXPECT_THROW(parse_layout(wrong), std::invalid_argument) << wrong;
}

}  // namespace
}  // namespace tandem::bench
