// Ranks of a pipeline that die while streams run.
#include <gtest/gtest.h>

#include "tests/support/processes/cluster_cases.h"

namespace tandem::test {
namespace {

TEST(KillStages, AnyOfThemIsReplacedAndNoTokenIsLost) {
  Server server({"--pp", "3", "--max-restarts", "100"});
  auto client = client::Client::connect(server.client_options());
  Load load(client, sound_cases(), 30);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(load.progress(20));
    const auto workers = server.workers();
    ASSERT_EQ(workers.size(), 3u);
    kill(workers[static_cast<size_t>(i)], SIGKILL);
    ASSERT_TRUE(server.logged(": up, generation", 20s, i + 2));
  }
  load.expect_all_well();
  expect_idle(client);
  server.expect_clean_end();
}

}  // namespace
}  // namespace tandem::test
