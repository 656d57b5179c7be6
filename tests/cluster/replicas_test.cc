// Several replicas: what one loses the others take.
#include <gtest/gtest.h>

#include "tests/support/processes/cluster_cases.h"

namespace tandem::test::replicas_test {
namespace {

// The workers of one replica, by their command line.
std::vector<pid_t> workers_of(const Server& server, const std::string& replica) {
  std::vector<pid_t> out;
  for (const pid_t pid : server.workers()) {
    const auto line = command_line(pid);
    const auto it = std::find(line.begin(), line.end(), "--replica");
    if (it != line.end() && it + 1 != line.end() && *(it + 1) == replica) out.push_back(pid);
  }
  return out;
}

TEST(Replicas, TheOtherTakesTheRequestsOfADeadOne) {
  Server server({"--dp", "2", "--tp", "2", "--max-restarts", "100"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), 60);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(load.progress(60));
    const std::string replica = i % 2 == 0 ? "0" : "1";
    const auto victims = workers_of(server, replica);
    ASSERT_EQ(victims.size(), 2u);
    for (const pid_t pid : victims) kill(pid, SIGKILL);
    ASSERT_TRUE(server.logged("replica " + replica + ": down", 5s, i / 2 + 1));
    EXPECT_TRUE(load.progress(60));
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 3));
  }
  // Both work again.
  EXPECT_TRUE(eventually(20s, [&] {
    const auto info = client.server_info();
    return info.replicas_size() == 2 && info.replicas(0).num_requests() > 0 &&
           info.replicas(1).num_requests() > 0;
  }));
  load.expect_all_well();
  expect_idle(client);
  server.report_recovery("a replica's workers killed");
  server.expect_clean_end();
}

// One replica whose workers do not come back for a long time.
TEST(Replicas, OneIsEnoughToFinish) {
  TempDir marks;
  Server server({"--dp", "2", "--startup-timeout", "600", "--worker-program", FAULTY_WORKER_BINARY},
                {"TANDEM_FAULT=hang-loading", "TANDEM_FAULT_MARKS=" + marks.path().string(),
                 "TANDEM_FAULT_TIMES=1", "TANDEM_FAULT_GENERATION=2"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), 60);
  EXPECT_TRUE(load.progress(60));
  const auto victims = workers_of(server, "1");
  ASSERT_EQ(victims.size(), 1u);
  kill(victims[0], SIGKILL);
  // Its successor hangs while it loads.
  ASSERT_TRUE(eventually(10s, [&] { return !files_in(marks.path()).empty(); }));
  EXPECT_TRUE(load.progress(240));
  EXPECT_EQ(server.ups(), 2);
  load.expect_all_well();
  EXPECT_FALSE(client.server_info().replicas(1).up());
  const auto hanging = workers_of(server, "1");
  ASSERT_EQ(hanging.size(), 1u);
  kill(hanging[0], SIGKILL);
  ASSERT_TRUE(server.logged(": up, generation", 20s, 3));
  expect_idle(client);
  server.expect_clean_end();
}

}  // namespace
}  // namespace tandem::test::replicas_test
