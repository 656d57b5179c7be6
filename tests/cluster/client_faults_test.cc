// Clients and connections that break, and a server that is told to end while it works.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/network/tcp_proxy.h"
#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::client_faults_test {
namespace {

constexpr int kClientStreams = 50;

TEST(BrokenConnection, EveryStreamGoesOnWhereItWas) {
  Server server({"--tp", "2"});
  TcpProxy proxy(server.port());
  auto client = client::Client::connect(server.client_options(proxy.port()));
  const auto cases = undisturbed(client);
  const int fds = num_fds(server.pid());
  Load load(client, cases, kClientStreams);
  for (int i = 0; i < 15; ++i) {
    EXPECT_TRUE(load.progress(kClientStreams / 4)) << "after " << i << " cuts";
    if (i % 3 == 0) {  // nobody is told for a while
      proxy.hold(true);
      std::this_thread::sleep_for(100ms);
      proxy.hold(false);
    }
    proxy.cut();
  }
  EXPECT_TRUE(load.progress(kClientStreams));
  load.expect_all_well();
  EXPECT_GE(proxy.num_connections(), 10);
  expect_idle(client);
  EXPECT_TRUE(eventually(5s, [&] { return num_fds(server.pid()) <= fds + 4; }));
  client.close();
  server.expect_clean_end();
}

// The workers' connections are cut with the clients'. (Nothing proxies them: what they do about it
// is to end, and the group is replaced; SIGKILL shows the same.)
TEST(BrokenConnection, TogetherWithKilledWorkers) {
  Server server({"--tp", "2", "--max-restarts", "100"});
  TcpProxy proxy(server.port());
  auto client = client::Client::connect(server.client_options(proxy.port()));
  Load load(client, sound_cases(), kClientStreams);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(load.progress(10));
    const auto workers = server.workers();
    if (!workers.empty()) kill(workers.front(), SIGKILL);
    proxy.cut();
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2));
  }
  load.expect_all_well();
  expect_idle(client);
  client.close();
  server.expect_clean_end();
}

std::vector<std::string> generate_command(const Server& server) {
  return {TANDEM_BINARY,
          "generate",
          "--jsonl",
          "--connect",
          "127.0.0.1:" + std::to_string(server.port()),
          "--access-file",
          server.access_file(server.port())};
}

std::string long_requests(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines +=
        nlohmann::json{
            {"id", i},
            {"prompt", "something to begin with"},
            {"params",
             {{"do_sample", true}, {"ignore_eos", true}, {"n", 4}, {"max_new_tokens", 110}}}}
            .dump() +
        "\n";
  return lines;
}

TEST(VanishedClient, LeavesNothingAtTheServer) {
  Server server({"--tp", "2", "--orphan-timeout", "0.3", "--max-num-seqs", "8"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), kClientStreams);
  Program vanishing(generate_command(server), {}, long_requests(400));
  // Its requests are more than the load has.
  ASSERT_TRUE(
      eventually(20s, [&] { return client.server_info().num_requests() > kClientStreams; }));
  vanishing.signal(SIGKILL);
  EXPECT_EQ(vanishing.wait(5s).value_or(-1), 128 + SIGKILL);
  EXPECT_TRUE(
      eventually(10s, [&] { return client.server_info().num_requests() <= kClientStreams; }));
  EXPECT_TRUE(load.progress(kClientStreams));
  load.expect_all_well();
  expect_idle(client);
  client.close();
  server.expect_clean_end();
}

TEST(Drain, FinishesWhatWasBegunAndRefusesMore) {
  Server server({"--tp", "2", "--max-num-seqs", "16"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), kClientStreams);
  load.allow_error("unavailable_error");
  EXPECT_TRUE(load.progress(kClientStreams));
  const int before = load.finished();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(30s).value_or(-1), 0);
  load.expect_all_well();  // each stream ends with a request that is refused, none otherwise
  EXPECT_EQ(load.errors("unavailable_error"), kClientStreams);
  EXPECT_GT(load.finished(), before);
  server.expect_nothing_left();
}

TEST(Drain, SurvivesTheDeathOfAWorker) {
  Server server({"--tp", "2", "--max-num-seqs", "4"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), 100);
  load.allow_error("unavailable_error");
  EXPECT_TRUE(load.progress(20));
  server.signal(SIGTERM);
  const auto workers = server.workers();
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[1], SIGKILL);
  EXPECT_EQ(server.wait(30s).value_or(-1), 0);
  load.expect_all_well();
  server.expect_nothing_left();
}

TEST(Drain, ASecondSignalStopsAtOnce) {
  Server server({"--tp", "2", "--max-num-seqs", "4"});
  Program client(generate_command(server), {}, long_requests(300));
  auto watcher = client::Client::connect(server.client_options());
  ASSERT_TRUE(eventually(20s, [&] { return watcher.server_info().num_requests() > 100; }));
  server.signal(SIGTERM);
  ASSERT_TRUE(server.logged("shutting down", 5s));
  const auto start = Clock::now();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(20s).value_or(-1), 0);
  EXPECT_LT(Clock::now() - start, 5s);
  server.expect_nothing_left();
  client.signal(SIGTERM);
}

}  // namespace
}  // namespace tandem::test::client_faults_test
