// Strong scaling (one batch on more ranks) and weak scaling (a batch that grows with the ranks):
// the tokens do not depend on the ranks, and each step communicates what the model's shape says.
// Times are printed, not checked.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "benchmarks/support/random_bart.h"
#include "benchmarks/support/scaling_run.h"

namespace tandem::bench {
namespace {

// 6 heads: they do not divide evenly by 4 ranks, nor does the vocabulary.
constexpr random_bart::Size kSize{2, 192, 6, 768, 2047, 128};

class ScalingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = std::filesystem::temp_directory_path() /
             ("tandem-scaling-test-" + std::to_string(getpid()));
    random_bart::write(model_, kSize, 7);
    config_ = ModelConfig::load(model_);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(model_); }

  // All ranks agree, and what each step communicated is what it should be.
  static ScalingResult run(int ranks, const ScalingCase& c) {
    const auto results = run_on_threads(model_, ranks, c);
    for (const ScalingResult& result : results) {
      EXPECT_EQ(result.tokens, results[0].tokens);
      EXPECT_EQ(result.steps.size(), results[0].steps.size());
      for (const ScalingStep& step : result.steps) check(step, ranks);
    }
    return results[0];
  }

  static void check(const ScalingStep& step, int ranks) {
    int64_t calls = 0, bytes = 0;
    if (ranks > 1) expected_traffic(config_, step, &calls, &bytes);
    EXPECT_EQ(step.calls, calls);
    EXPECT_EQ(step.bytes, bytes);
    EXPECT_GE(step.communication, 0);
    EXPECT_LE(step.communication, step.seconds);
    EXPECT_EQ(step.communication > 0, ranks > 1);
  }

  static void print(const char* kind, int ranks, const ScalingCase& c, const ScalingResult& r) {
    const ScalingSummary s = summary_of(r);
    std::printf(
        "%s: %d rank(s), batch %2d: step %7.3f ms = %7.3f computing + %7.3f communicating, %3.0f "
        "calls, %6.1f KB\n",
        kind, ranks, c.batch, s.decode * 1e3, (s.decode - s.decode_communication) * 1e3,
        s.decode_communication * 1e3, s.calls, s.bytes / 1e3);
  }

  inline static std::filesystem::path model_;
  inline static ModelConfig config_;
};

TEST_F(ScalingTest, Strong) {
  const ScalingCase c{.batch = 6, .source_tokens = 24, .new_tokens = 12};
  const ScalingResult one = run(1, c);
  print("strong", 1, c, one);
  for (const auto& tokens : one.tokens) EXPECT_EQ(tokens.size(), size_t{12});
  EXPECT_NE(one.tokens[0], one.tokens[1]);
  for (const int ranks : {2, 3, 4}) {
    const ScalingResult more = run(ranks, c);
    print("strong", ranks, c, more);
    EXPECT_EQ(more.tokens, one.tokens) << ranks << " ranks";
    EXPECT_EQ(more.steps.size(), one.steps.size());
  }
}

TEST_F(ScalingTest, Weak) {
  for (const int ranks : {1, 2, 4}) {
    const ScalingCase c{.batch = 3 * ranks, .source_tokens = 24, .new_tokens = 12};
    const ScalingResult result = run(ranks, c);
    print("weak", ranks, c, result);
    EXPECT_EQ(result.tokens, run(1, c).tokens) << ranks << " ranks";
    int64_t sampled = 0;
    for (const ScalingStep& step : result.steps) sampled += step.sampled_rows;
    EXPECT_EQ(sampled, c.batch * c.new_tokens);
  }
}

}  // namespace
}  // namespace tandem::bench
