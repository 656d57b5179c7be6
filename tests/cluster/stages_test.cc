// Ranks of a pipeline, and of encoders alone, that die, stop or are slow while streams run, and
// models that only a pipeline can hold.
#include <gtest/gtest.h>

#include "benchmarks/support/random_bart.h"
#include "tests/support/processes/cluster_cases.h"
#include "tests/support/sanitized.h"

namespace tandem::test::stages_test {
namespace {

// Greedy, sampled, several results, and every third one a beam search.
const std::vector<LoadCase>& all_cases() {
  static const std::vector<LoadCase> cases = [] {
    Server server({"--distributed-executor-backend", "threads"});
    auto client = client::Client::connect(server.client_options());
    std::vector<LoadCase> wanted = load_cases();
    size_t at = 2;
    for (const LoadCase& beams : beam_cases()) {
      wanted.insert(wanted.begin() + static_cast<std::ptrdiff_t>(at), beams);
      at = std::min(at + 3, wanted.size());
    }
    return undisturbed(client, wanted);
  }();
  return cases;
}

struct Fault {
  int rank, signal;
};

class StageFaults : public ::testing::Test {
 protected:
  // One fault after the other, each under load. The whole group is replaced each time.
  void expect_replaced(std::vector<std::string> flags, const std::vector<Fault>& faults) {
    flags.insert(flags.end(), {"--max-restarts", "100", "--worker-timeout", "1"});
    Server server(flags);
    auto client = client::Client::connect(server.client_options());
    Load load(client, all_cases(), 30);
    int ups = 1;
    for (const auto& [rank, signal] : faults) {
      EXPECT_TRUE(load.progress(15));
      const auto old = server.workers();
      const pid_t victim = server.worker_of(rank);
      ASSERT_NE(victim, 0) << "rank " << rank;
      kill(victim, signal);
      ASSERT_TRUE(server.logged(": up, generation", 20s, ++ups)) << "rank " << rank;
      for (const pid_t pid : old) EXPECT_FALSE(is_alive(pid)) << "rank " << rank;
    }
    EXPECT_TRUE(load.progress(15));
    load.expect_all_well();
    EXPECT_EQ(server.ups(), ups);
    expect_idle(client);
    server.report_recovery(flags[1] + " stages");
    server.expect_clean_end();
  }
};

TEST_F(StageFaults, AnyOfThreeIsReplaced) {
  expect_replaced({"--pp", "3"}, {{0, SIGKILL}, {1, SIGKILL}, {2, SIGKILL}});
}

TEST_F(StageFaults, TheFirstOrTheLastOneStops) {
  expect_replaced({"--pp", "2"}, {{0, SIGSTOP}, {1, SIGSTOP}});
}

// Ranks 2 and 3 are the last stage; the engine is answered by rank 2.
TEST_F(StageFaults, StagesOfSeveralRanks) {
  expect_replaced({"--pp", "2", "--tp", "2"}, {{0, SIGKILL}, {3, SIGKILL}, {2, SIGSTOP}});
}

// Ranks 0 and 1 run decoders, 2 and 3 encoders.
TEST_F(StageFaults, RanksOfEncodersOrOfDecoders) {
  expect_replaced({"--tp", "2", "--encoder-ranks", "2"},
                  {{2, SIGKILL}, {0, SIGKILL}, {3, SIGSTOP}, {1, SIGSTOP}});
}

// Pauses shorter than the time-out: all others wait, and nothing is replaced.
TEST_F(StageFaults, ASlowOneIsWaitedFor) {
  Server server({"--pp", "2", "--encoder-ranks", "1", "--worker-timeout", "5"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, all_cases(), 30);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(load.progress(5));
    const pid_t slow = server.worker_of(i % 3);
    ASSERT_NE(slow, 0);
    kill(slow, SIGSTOP);
    std::this_thread::sleep_for(200ms);
    kill(slow, SIGCONT);
  }
  load.expect_all_well();
  EXPECT_EQ(server.ups(), 1);
  server.expect_clean_end();
}

// Of what a process has of its own, packed weights too, but not of the mapped file. Weights take
// 231 MiB in all, 136 MiB on the larger stage.
TEST(LargeModel, TwoStagesHoldWhatOneRankCannot) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer's memory counts as well";
  const TempDir dir;
  const bench::random_bart::Size size{2, 1024, 16, 4096, 1024, 256};
  bench::random_bart::write(dir / "model", size, 1);
  const auto generate = [&](std::vector<std::string> limit, const std::string& stages) {
    std::vector<std::string> command = std::move(limit);
    command.insert(command.end(), {TANDEM_BINARY, "generate", "--model", dir / "model", "--dtype",
                                   "float32", "--threads", "1", "--kv-cache-memory", "4MiB",
                                   "--swap-space", "0", "--max-num-batched-tokens", "64",
                                   "--max-new-tokens", "8", "--pp", stages, "a text"});
    Program program(command);
    const int status = program.wait(60s).value_or(-1);
    return std::tuple(status, program.out(), program.log());
  };
  const std::vector<std::string> limit{"prlimit", "--data=268435456", "--stack=2097152", "--"};
  const auto [good, text, log] = generate({}, "1");
  ASSERT_EQ(good, 0) << log;
  const auto [failed, nothing, reason] = generate(limit, "1");
  EXPECT_NE(failed, 0) << "the limit is too high to show anything";
  EXPECT_NE(reason.find("out of memory"), std::string::npos) << reason;
  const auto [status, same, log_of_stages] = generate(limit, "2");
  EXPECT_EQ(status, 0) << log_of_stages;
  EXPECT_EQ(same, text);
}

}  // namespace
}  // namespace tandem::test::stages_test
