// The deterministic simulation of a cluster over many seeds (docs/design/simulation.md).
//
//   TANDEM_SIMULATION_SEED=17 TANDEM_SIMULATION_LOG=1 engine_test --gtest_filter=*OneSeed
//   TANDEM_SIMULATION_SEEDS=100000 engine_test --gtest_filter=*ClusterSimulation*

#include "tests/support/simulation/cluster_simulation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/sanitized.h"

namespace tandem {
namespace {

using testing_support::ClusterSimulation;
using testing_support::SimulationCounts;
using testing_support::SimulationFailure;

constexpr int kShards = 4;  // as many tests, so that they can run side by side
constexpr uint64_t kSeeds = testing_support::kSanitized ? 1200 : 8000;

// A broken invariant aborts: the seed is told all the same.
char seed_text[128];
void tell_seed(int signal) {
  [[maybe_unused]] const auto n = write(STDERR_FILENO, seed_text, std::strlen(seed_text));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool run_seed(uint64_t seed, bool log, SimulationCounts& counts) {
  std::snprintf(seed_text, sizeof(seed_text), "rerun with TANDEM_SIMULATION_SEED=%llu\n",
                static_cast<unsigned long long>(seed));
  const auto before = std::signal(SIGABRT, tell_seed);
  bool good = false;
  try {
    ClusterSimulation(seed, log, counts).run();
    good = true;
  } catch (const std::exception& failure) {
    ADD_FAILURE() << failure.what() << "\n" << seed_text;
  }
  std::signal(SIGABRT, before);
  return good;
}

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

class ClusterSimulationShard : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ClusterSimulationShard, EveryStreamIsWhole) {
  const uint64_t seeds = number_from("TANDEM_SIMULATION_SEEDS", kSeeds) / kShards;
  SimulationCounts n;
  for (uint64_t seed = GetParam() * seeds + 1; seed <= (GetParam() + 1) * seeds; ++seed)
    if (!run_seed(seed, false, n)) return;
  std::printf(
      "%llu events, %llu requests, %llu completed, %llu restarts, %llu preemptions\n",
      static_cast<unsigned long long>(n.events), static_cast<unsigned long long>(n.requests),
      static_cast<unsigned long long>(n.completed), static_cast<unsigned long long>(n.restarts),
      static_cast<unsigned long long>(n.preemptions));
  // The test must have seen what it is about.
  EXPECT_GE(n.completed, 4 * seeds);
  EXPECT_GE(n.restarts, seeds);
  EXPECT_GE(n.preemptions, seeds / 2);
  EXPECT_GE(n.accepted, 2 * seeds);
  EXPECT_GE(n.all_stages_busy, seeds);
  EXPECT_GE(n.waits_for_tokens, seeds);
  EXPECT_GE(n.encoder_steps, seeds);
  EXPECT_GE(n.waits_for_letters, seeds / 4);
  for (const uint64_t seen :
       {n.kills, n.several, n.crashes, n.hangs, n.lies, n.slow, n.refused_poison, n.cancelled,
        n.timed_out, n.too_large, n.drained, n.reconnected, n.resumed, n.vanished, n.given_up,
        n.overloaded, n.reused_ids, n.pooled, n.silent})
    EXPECT_GE(seen, seeds / 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ClusterSimulationShard,
                         ::testing::Range(uint64_t{0}, uint64_t{kShards}));

TEST(ClusterSimulation, OneSeed) {
  SimulationCounts counts;
  run_seed(number_from("TANDEM_SIMULATION_SEED", 1), number_from("TANDEM_SIMULATION_LOG", 0) != 0,
           counts);
}

TEST(ClusterSimulation, IsDeterministic) {
  SimulationCounts first, second;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    run_seed(seed, false, first);
    run_seed(seed, false, second);
    ASSERT_EQ(first.events, second.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem
