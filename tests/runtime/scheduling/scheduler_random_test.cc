// The scheduler over random arrivals, aborts, finishes and tiny pools, with a fake worker behind
// it: every rule is checked on every step, every key that attention would read is the right one,
// and every request ends within a bound.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/dice.h"
#include "tests/support/scheduling/engine_loop.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::scheduler_random_test {
namespace {

using testing_support::Dice;
using testing_support::EngineLoop;
using testing_support::SampledToken;

struct Counts {
  int operations = 0, steps = 0, turns = 0, preempted = 0, swapped_in = 0, refused = 0;
  int aborted = 0, aborted_in_flight = 0, finished_in_flight = 0, emitted = 0, pooled = 0;
  CacheStats caches;
};

class Simulation : Dice {
 public:
  explicit Simulation(uint32_t seed)
      : Dice(seed),
        config_(random_config()),
        loop_(config_, seed + 1),
        scheduler_(loop_.scheduler()) {}

  void run(int operations, Counts& counts) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      ++counts_.operations;
      const int op = uniform(0, 99);
      if (op < 30)
        arrive();
      else if (op < 34)
        abort_one(counts_.aborted);
      else
        step();
    }
    drain();
    merge(counts);
  }

 private:
  // --- Chance ------------------------------------------------------------------------------------

  SchedulerConfig random_config() {
    SchedulerConfig config;
    config.block_size = pick({1, 2, 3, 16});
    config.max_num_seqs = pick({1, 3, 8, 16, 32});
    config.max_num_batched_tokens = pick({1, 2, 5, 16, 32, 64});
    config.num_device_blocks = uniform(20, 100) / std::min(config.block_size, 6);
    config.num_host_blocks = pick({0, 5, 30, 200});
    config.preemption = static_cast<PreemptionMode>(pick({0, 1, 2}));  // kAuto, kRecompute, kSwap
    config.swap_cost = pick({0, 1, 2, 10}) * 0.5;
    config.enable_encoder_cache = !one_in(4);
    config.enable_prefix_caching = !one_in(4);
    config.whole_prompts = one_in(3);
    return config;
  }

  // --- Operations --------------------------------------------------------------------------------

  void arrive() {
    testing_support::GroupSpec spec;
    spec.request_id = "request " + std::to_string(next_request_++);
    spec.seq_ids.clear();
    for (int i = one_in(3) ? uniform(1, 4) : 1; i > 0; --i) spec.seq_ids.push_back(next_seq_++);
    spec.encoder_len = uniform(1, 20);
    spec.prompt_len = one_in(4) ? uniform(1, 12) : 2;
    if (one_in(2)) {  // what others have, too
      spec.source = uniform(1, 4);
      spec.encoder_len = 5 * spec.source;
      spec.prompt = uniform(0, 1);
    } else {
      spec.source = 5 + static_cast<int>(next_seq_);
    }
    spec.max_tokens = uniform(1, 30);
    if (one_in(5)) {
      spec.pooled = true;
      spec.seq_ids.resize(1);
      spec.encoder_len = one_in(3) ? uniform(1, 200) : spec.encoder_len;  // than the pool, even
    }
    spec.arrival_time = loop_.now() - (one_in(8) ? 5 : 0);
    spec.priority = one_in(5) ? uniform(-1, 1) : 0;
    if (!fits(spec)) {
      ++counts_.refused;
      EXPECT_THROW(loop_.add(spec), InputError);
      return;
    }
    loop_.add(spec);
    live_.push_back(spec);
    tokens_to_come_ += spec.encoder_len +
                       static_cast<int>(spec.seq_ids.size()) * (spec.prompt_len + spec.max_tokens);
  }

  bool fits(const testing_support::GroupSpec& spec) const {
    const auto blocks = [&](int tokens) {
      return (tokens + config_.block_size - 1) / config_.block_size;
    };
    const int n = static_cast<int>(spec.seq_ids.size());
    if (spec.pooled) return true;
    return n <= config_.max_num_seqs &&
           blocks(spec.encoder_len) + n * blocks(spec.prompt_len + spec.max_tokens - 1) <=
               config_.num_device_blocks;
  }

  void abort_one(int& count) {
    if (live_.empty()) return;
    const auto it = live_.begin() + uniform(0, static_cast<int>(live_.size()) - 1);
    EXPECT_TRUE(scheduler_.abort_seq_group(it->request_id));
    EXPECT_FALSE(scheduler_.abort_seq_group(it->request_id));
    EXPECT_EQ(scheduler_.find(it->request_id), nullptr);
    scheduler_.check_integrity();
    live_.erase(it);
    ++count;
  }

  void step() {
    const bool had_work = scheduler_.has_unfinished();
    const proto::StepInput step = loop_.schedule();
    ASSERT_EQ(has_work(step), had_work) << "no progress";
    ++counts_.steps;
    if (!had_work) return;
    ASSERT_GT(step.groups_size() + step.deltas_size(), 0);
    if (one_in(20)) abort_one(counts_.aborted_in_flight);
    if (one_in(20)) finish_one();
    const std::vector<SampledToken> sampled = loop_.complete(step);
    counts_.emitted += static_cast<int>(sampled.size());
    for (const SampledToken& token : sampled)
      if (one_in(40))
        scheduler_.finish_sequence(token.request_id, token.seq_id,
                                   SequenceStatus::kFinishedStopped);
    loop_.finish(sampled);
    std::erase_if(live_, [&](const auto& spec) { return !scheduler_.find(spec.request_id); });
    check_tokens();
  }

  // A stop string, say, found by someone else while a step runs.
  void finish_one() {
    if (live_.empty()) return;
    const auto& spec = live_[static_cast<size_t>(uniform(0, static_cast<int>(live_.size()) - 1))];
    const int64_t seq =
        spec.seq_ids[static_cast<size_t>(uniform(0, static_cast<int>(spec.seq_ids.size()) - 1))];
    scheduler_.finish_sequence(spec.request_id, seq, SequenceStatus::kFinishedStopped);
    scheduler_.check_integrity();
    if (one_in(2)) scheduler_.free_finished_seq_groups();
    ++counts_.finished_in_flight;
  }

  void check_tokens() {
    for (const auto& spec : live_) {
      for (const auto& seq : scheduler_.find(spec.request_id)->seqs()) {
        const auto tokens = seq->tokens();
        const auto& known = loop_.tokens(seq->seq_id());
        ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), known.begin(), known.end()));
      }
    }
  }

  // No arrivals any more: all must end.
  void drain() {
    const int64_t bound = counts_.steps + 10 + int64_t{tokens_to_come_} * 20;
    while (scheduler_.has_unfinished() && !::testing::Test::HasFailure()) {
      ASSERT_LT(counts_.steps, bound) << "starvation";
      step();
    }
    const BlockManager& blocks = scheduler_.block_manager();
    EXPECT_EQ(blocks.device().num_free(), config_.num_device_blocks);
    EXPECT_EQ(blocks.host().num_free(), config_.num_host_blocks);
    EXPECT_TRUE(live_.empty());
    forget_all();
  }

  // Workers hear of what is finished with the next step that has work.
  void forget_all() {
    while (live_.empty() && !::testing::Test::HasFailure()) arrive();
    if (::testing::Test::HasFailure()) return;
    loop_.complete(loop_.schedule());
    EXPECT_EQ(loop_.worker().table().size(), 1u);
    scheduler_.abort_seq_group(live_.front().request_id);
  }

  void merge(Counts& counts) const {
    counts.operations += counts_.operations;
    counts.steps += counts_.steps;
    counts.turns += loop_.rules().turns();
    counts.preempted += loop_.rules().preempted();
    counts.swapped_in += loop_.rules().swapped_in();
    counts.refused += counts_.refused;
    counts.aborted += counts_.aborted;
    counts.aborted_in_flight += counts_.aborted_in_flight;
    counts.finished_in_flight += counts_.finished_in_flight;
    counts.emitted += counts_.emitted;
    counts.pooled += loop_.num_pooled();
    EXPECT_EQ(loop_.rules().preempted(), scheduler_.num_preemptions());
    const CacheStats& caches = scheduler_.block_manager().cache_stats();
    EXPECT_EQ(loop_.rules().sources_found(), caches.encoder_hits);
    counts.caches.encoder_hits += caches.encoder_hits;
    counts.caches.prefix_hits += caches.prefix_hits;
    counts.caches.evicted_blocks += caches.evicted_blocks;
  }

  SchedulerConfig config_;
  EngineLoop loop_;
  Scheduler& scheduler_;
  std::vector<testing_support::GroupSpec> live_;
  Counts counts_;
  int next_request_ = 0;
  int64_t next_seq_ = 0;
  int tokens_to_come_ = 0;
};

TEST(SchedulerRandom, EveryRuleOnEveryStep) {
  Counts counts;
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed).run(100, counts);
    if (HasFailure()) return;
  }
  EXPECT_GE(counts.operations, 10'000);
  // The test must have seen what it is about.
  EXPECT_GE(counts.turns, 500);
  EXPECT_GE(counts.preempted, 500);
  EXPECT_GE(counts.swapped_in, 100);
  EXPECT_GE(counts.refused, 100);
  EXPECT_GE(counts.aborted, 200);
  EXPECT_GE(counts.aborted_in_flight, 200);
  EXPECT_GE(counts.finished_in_flight, 200);
  EXPECT_GE(counts.emitted, 10'000);
  EXPECT_GE(counts.pooled, 1000);
  EXPECT_GE(counts.caches.encoder_hits, 1000);
  EXPECT_GE(counts.caches.prefix_hits, 1000);
  EXPECT_GE(counts.caches.evicted_blocks, 5000);
}

}  // namespace
}  // namespace tandem::scheduler_random_test
