// Ranks that someone else has started, as threads of this process: each has its own connection.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "actors/cluster.h"
#include "actors/thread_launcher.h"
#include "actors/worker_process.h"
#include "tests/support/engine/cluster_client.h"
#include "tests/support/goldens/golden_cluster_config.h"

namespace tandem::actors {
namespace {

using namespace std::chrono_literals;

bool wait_until_up(Cluster& cluster) {
  ClusterStatus status = cluster.status();
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (status.replicas_up == 0 && !status.given_up) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    status = cluster.wait_for_change(status, 100ms);
  }
  return status.replicas_up == 1;
}

// Rank 1 reports as soon as it hears where to, which is before the supervisor has started; and it
// is told to stop just before the supervisor goes. (It would end this process if it took that for a
// loss.)
TEST(OuterJob, RanksThatComeEarlyAndHearTheEndLate) {
  for (int round = 0; round < 10; ++round) {
    auto config = testing::golden_cluster_config("bart-tiny");
    config.tensor_parallel_size = 2;
    auto workers = model_worker_groups()(0, 2);
    std::jthread rank1;
    ExternalRanks ranks;
    ranks.rank0 = workers[0];
    ranks.announce = [&](const WorkerEndpoint& endpoint) {
      rank1 = std::jthread([endpoint, worker = workers[1]] {
        WorkerProcessOptions options;
        options.endpoint = endpoint;
        options.rank = 1;
        EXPECT_FALSE(run_worker_process(options, worker));
      });
      std::this_thread::sleep_for(round % 2 == 0 ? 100ms : 0ms);
    };
    {
      Cluster cluster(config, std::move(ranks));
      ASSERT_TRUE(wait_until_up(cluster)) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tandem::actors
