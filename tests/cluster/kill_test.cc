// Workers that die or stop answering while many streams run: nothing of that reaches a stream.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/processes/cluster_cases.h"
#include "tests/support/sanitized.h"

namespace tandem::test::kill_test {
namespace {

constexpr int64_t kMoreKib =
    (testing_support::kSanitized ? 128 : 16) * 1024;  // a sanitizer keeps more

constexpr int kStreams = 60;

unsigned seed_of_this_run() {
  const char* given = std::getenv("TANDEM_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::printf("TANDEM_TEST_SEED=%u\n", seed);
  return seed;
}

TEST(KillWorkers, TwentyTimesAtRandomMoments) {
  std::mt19937 random(seed_of_this_run());
  Server server({"--tp", "2", "--max-restarts", "1000"});
  auto client = client::Client::connect(server.client_options());
  const auto cases = undisturbed(client);
  {
    Load warm_up(client, cases, kStreams);
    EXPECT_TRUE(warm_up.progress(kStreams));
    warm_up.expect_all_well();
  }
  const int fds = num_fds(server.pid());
  const int64_t kib = resident_kib(server.pid());
  Load load(client, cases, kStreams);
  Clock::duration noticed{}, back{};
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(load.progress(1)) << "after " << i << " kills";
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    const auto workers = server.workers();
    ASSERT_EQ(workers.size(), 2u);
    const auto start = Clock::now();
    kill(workers[static_cast<size_t>(i % 2)], SIGKILL);
    ASSERT_TRUE(server.logged(": down:", 20s, i + 1)) << "after " << i + 1 << " kills";
    noticed = std::max(noticed, Clock::now() - start);
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2)) << "after " << i + 1 << " kills";
    back = std::max(back, Clock::now() - start);
  }
  const auto ms = [](Clock::duration d) { return static_cast<int>(d / 1ms); };
  std::printf("noticed within %d ms, back within %d ms of the kill\n", ms(noticed), ms(back));
  load.expect_all_well();
  expect_idle(client);
  EXPECT_LE(num_fds(server.pid()), fds + 4);
  EXPECT_LE(resident_kib(server.pid()), kib + kMoreKib);
  server.report_recovery("kill -9");
  server.expect_clean_end();
}

TEST(KillWorkers, WhileTheyLoad) {
  std::mt19937 random(seed_of_this_run());
  Server server({"--tp", "2", "--max-restarts", "1000"});
  auto client = client::Client::connect(server.client_options());
  const auto cases = undisturbed(client);
  Load load(client, cases, kStreams);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(eventually(20s, [&] { return !server.workers().empty(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 400));
    for (const pid_t worker : server.workers())
      if (random() % 2 == 0) kill(worker, SIGKILL);
  }
  EXPECT_TRUE(load.progress(kStreams));
  load.expect_all_well();
  server.expect_clean_end();
}

TEST(KillWorkers, IsToldWithRankAndSignal) {
  Server server({"--tp", "2"});
  const auto workers = server.workers();
  ASSERT_EQ(workers.size(), 2u);
  const auto line = command_line(workers[1]);
  const auto rank = std::find(line.begin(), line.end(), "--rank");
  ASSERT_TRUE(rank != line.end() && rank + 1 != line.end());
  kill(workers[1], SIGKILL);
  ASSERT_TRUE(server.logged(": up, generation", 20s, 2));
  // Once for the process; the line "down: CAUSE" may say it as well, where it was known before the
  // connection was lost.
  const auto told = "replica 0: rank " + *(rank + 1) + " ended by signal 9";
  EXPECT_EQ(server.count_in_log(told), 1) << server.log();
  EXPECT_EQ(server.count_in_log(" ended "),
            server.count_in_log(told) + server.count_in_log("down: rank " + *(rank + 1) + " ended"))
      << "of the one that was killed, not of the other\n"
      << server.log();
  for (const pid_t pid : workers) EXPECT_FALSE(is_alive(pid));
  server.expect_clean_end();
}

// Under mpirun, where the ranks are not this server's children.
TEST(KillWorkers, OfMpirun) {
  Server server({"--tp", "2", "--distributed-executor-backend", "mpi"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), kStreams);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(load.progress(10));
    const auto workers = server.workers();
    ASSERT_EQ(workers.size(), 2u);
    kill(workers[static_cast<size_t>(i % 2)], SIGKILL);
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2));
  }
  load.expect_all_well();
  server.report_recovery("kill -9 of a rank of mpirun");
  server.expect_clean_end();
}

TEST(KillWorkers, MpirunIsKilled) {
  Server server({"--tp", "2", "--distributed-executor-backend", "mpi"});
  auto client = client::Client::connect(server.client_options());
  const auto cases = undisturbed(client);
  Load load(client, cases, kStreams);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(load.progress(10));
    const auto old = server.workers();
    for (const pid_t pid : server.mpiruns()) kill(pid, SIGKILL);
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2));
    for (const pid_t pid : old) EXPECT_FALSE(is_alive(pid));
  }
  load.expect_all_well();
  server.report_recovery("kill -9 of mpirun");
  server.expect_clean_end();
}

TEST(StoppedWorker, IsReplacedAndGone) {
  Server server({"--tp", "2", "--worker-timeout", "1"});
  auto client = client::Client::connect(server.client_options());
  const auto cases = undisturbed(client);
  Load load(client, cases, kStreams);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(load.progress(10));
    const auto workers = server.workers();
    ASSERT_EQ(workers.size(), 2u);
    const pid_t victim = workers[static_cast<size_t>(i)];
    kill(victim, SIGSTOP);
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2));
    EXPECT_FALSE(is_alive(victim));
  }
  load.expect_all_well();
  server.report_recovery("SIGSTOP, --worker-timeout 1 (from when it was noticed)");
  server.expect_clean_end();
}

}  // namespace
}  // namespace tandem::test::kill_test
