// The scheduler with several steps in flight: random arrivals, aborts, finishes, preemptions and
// resumed groups over tiny pools, while results come late. Whatever happens, a request gets the
// tokens that it would get alone, a step at a time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/dice.h"
#include "tests/support/scheduling/run_ahead_loop.h"

namespace tandem::scheduler_run_ahead_random_test {
namespace {

using testing_support::answer_of;
using testing_support::Dice;
using testing_support::GroupSpec;
using testing_support::RunAheadLoop;
using testing_support::SampledToken;

constexpr int kEosOneIn = 40;  // tokens divisible by it end a sequence

enum class Drafts { kNone, kLookedUp, kByModel };

struct Counts {
  int operations = 0, steps = 0, ahead = 0, waited = 0, surplus = 0, resumed = 0, aborted = 0;
  int aborted_in_flight = 0, stopped_in_flight = 0, refused = 0, completed = 0;
  int recomputed_pending = 0, swapped_pending = 0, swapped_in = 0, several = 0, pooled = 0;
  int64_t drafted = 0, accepted = 0;
  CacheStats caches;
};

class Simulation : Dice {
 public:
  Simulation(uint32_t seed, int depth, Drafts drafts, int stages, Counts& counts)
      : Dice(seed),
        config_(random_config(depth, drafts, stages)),
        loop_(config_, seed + 1),
        counts_(counts) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      ++counts_.operations;
      const int op = uniform(0, 99);
      if (op < 18)
        arrive();
      else if (op < 20)
        abort_one();
      else if (op < 23)
        resume_one();
      else if (op < 25)
        stop_one();
      else
        advance();
    }
    drain();
    EXPECT_EQ(loop_.rules().preempted(), scheduler().num_preemptions());
    counts_.swapped_in += loop_.rules().swapped_in();
    counts_.pooled += loop_.num_pooled();
    const CacheStats& caches = scheduler().block_manager().cache_stats();
    EXPECT_EQ(loop_.rules().sources_found(), caches.encoder_hits);
    counts_.caches.encoder_hits += caches.encoder_hits;
    counts_.caches.prefix_hits += caches.prefix_hits;
    counts_.caches.evicted_blocks += caches.evicted_blocks;
    counts_.drafted += scheduler().speculation_stats().draft_tokens;
    counts_.accepted += scheduler().speculation_stats().accepted_tokens;
  }

 private:
  Scheduler& scheduler() { return loop_.scheduler(); }

  SchedulerConfig random_config(int depth, Drafts drafts, int stages) {
    SchedulerConfig config;
    config.stages = stages;
    config.block_size = pick({1, 2, 3, 16});
    config.max_num_seqs = pick({1, 3, 8, 16, 32});
    config.max_num_batched_tokens = pick({1, 5, 16, 32, 64});
    config.num_device_blocks = uniform(20, 80) / std::min(config.block_size, 6);
    if (one_in(4)) config.num_device_blocks *= 3;  // what is cached lives longer
    config.num_host_blocks = pick({0, 30, 200});
    config.preemption = static_cast<PreemptionMode>(pick({0, 1, 2}));  // kAuto, kRecompute, kSwap
    config.swap_cost = pick({0, 1, 2, 10}) * 0.5;
    config.enable_encoder_cache = !one_in(4);
    config.enable_prefix_caching = !one_in(4);
    config.whole_prompts = one_in(3);
    config.max_steps_in_flight = depth;
    if (drafts != Drafts::kNone)
      config.speculation = {.num_tokens = uniform(1, 6),
                            .vocabulary = 1000,
                            .draft_model = drafts == Drafts::kByModel,
                            .draft_cost = 0.02};
    return config;
  }

  // --- Operations --------------------------------------------------------------------------------

  void arrive() {
    GroupSpec spec;
    // Few names, so that they are used again while steps in flight hold the last bearer.
    spec.request_id = "request " + std::to_string(uniform(0, 30));
    if (scheduler().find(spec.request_id) != nullptr) return;
    spec.seq_ids.clear();
    for (int i = one_in(3) ? uniform(1, 4) : 1; i > 0; --i) spec.seq_ids.push_back(next_seq_++);
    spec.encoder_len = uniform(1, 20);
    spec.prompt_len = one_in(3) ? uniform(1, 12) : 2;
    if (one_in(2)) {  // what others have, too
      spec.source = uniform(1, 4);
      spec.encoder_len = 4 * spec.source;
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
    add(spec);
  }

  void add(const GroupSpec& spec) {
    try {
      loop_.add(spec);
      live_.push_back(spec);
    } catch (const InputError&) {  // larger than the pool
      EXPECT_EQ(scheduler().find(spec.request_id), nullptr);
    }
  }

  size_t one_of_the_live() {
    return static_cast<size_t>(uniform(1, static_cast<int>(live_.size()))) - 1;
  }

  void abort_one() {
    if (live_.empty()) return;
    const size_t i = one_of_the_live();
    const SequenceGroup& group = *scheduler().find(live_[i].request_id);
    loop_.check_tokens(group);
    counts_.aborted_in_flight += group.has_pending_tokens();
    ++counts_.aborted;
    EXPECT_TRUE(loop_.abort(live_[i].request_id));
    EXPECT_FALSE(loop_.abort(live_[i].request_id));
    live_.erase(live_.begin() + static_cast<int64_t>(i));
  }

  // As after the loss of a worker: the request starts again, with what it had emitted, without
  // the sequences that have finished.
  void resume_one() {
    if (live_.empty()) return;
    const size_t i = one_of_the_live();
    if (scheduler().find(live_[i].request_id)->finished()) return;
    GroupSpec spec = live_[i];
    spec.seq_ids.clear();
    spec.emitted.clear();
    spec.indices.clear();
    for (const Sequence* seq : scheduler().find(spec.request_id)->unfinished_seqs()) {
      spec.seq_ids.push_back(next_seq_++);
      spec.indices.push_back(seq->index());
      const auto output = seq->output_tokens();
      spec.emitted.emplace_back(output.begin(), output.end());
    }
    EXPECT_TRUE(loop_.abort(spec.request_id));
    live_.erase(live_.begin() + static_cast<int64_t>(i));
    const size_t before = live_.size();
    add(spec);
    EXPECT_EQ(live_.size(), before + 1) << "what fitted fits again";
    ++counts_.resumed;
  }

  // A stop string, say, found by someone else while steps run.
  void stop_one() {
    if (live_.empty()) return;
    const GroupSpec& spec = live_[one_of_the_live()];
    const SequenceGroup& group = *scheduler().find(spec.request_id);
    const Sequence& seq =
        *group.seqs()[static_cast<size_t>(uniform(1, static_cast<int>(group.seqs().size()))) - 1];
    counts_.stopped_in_flight += seq.num_pending_tokens() > 0;
    end(spec.request_id, seq.seq_id(), SequenceStatus::kFinishedStopped);
    scheduler().check_integrity();
    if (one_in(2)) sweep();
  }

  void end(const std::string& request_id, int64_t seq_id, SequenceStatus status) {
    scheduler().finish_sequence(request_id, seq_id, status);
    EXPECT_EQ(scheduler().find(request_id)->find(seq_id)->num_pending_tokens(), 0);
  }

  // Frees what has ended; the cross blocks of finished groups may be all that others wait for.
  void sweep() {
    for (const GroupSpec& spec : live_)
      if (scheduler().find(spec.request_id)->finished())
        loop_.check_tokens(*scheduler().find(spec.request_id));
    loop_.free_finished();
    std::erase_if(live_, [&](const auto& spec) { return !scheduler().find(spec.request_id); });
  }

  // --- Steps -------------------------------------------------------------------------------------

  void advance() {
    std::vector<int> can;
    if (loop_.can_schedule()) can.insert(can.end(), {0, 0});
    if (loop_.can_execute()) can.push_back(1);
    if (loop_.can_deliver()) can.push_back(2);
    switch (pick(can)) {
      case 0: return schedule();
      case 1: return loop_.execute();
      default: return deliver();
    }
  }

  void schedule() {
    const bool unfinished = scheduler().has_unfinished();
    const int before = loop_.in_flight();
    if (before == 0) sweep();
    const bool work = has_work(loop_.schedule());
    ASSERT_TRUE(work || before > 0 || !unfinished) << "no progress";
    ASSERT_TRUE(unfinished || !work);
    counts_.steps += work;
    counts_.ahead += work && before > 0;
    counts_.several += work && before > 1;
    counts_.waited += !work && unfinished;
    for (const GroupSpec& spec : live_) {
      const SequenceGroup& group = *scheduler().find(spec.request_id);
      if (!group.has_pending_tokens()) continue;
      const SequenceStatus status = group.unfinished_seqs().front()->status();
      counts_.recomputed_pending += status == SequenceStatus::kWaiting;
      counts_.swapped_pending += status == SequenceStatus::kSwapped;
    }
  }

  void deliver() {
    const proto::StepInput& step = loop_.oldest_step();
    const std::vector<SampledToken>& results = loop_.oldest_results();
    if (one_in(10)) refuse(step, results);
    const size_t all = results.size();
    const std::vector<SampledToken> sampled = loop_.deliver();
    counts_.surplus += static_cast<int>(all - sampled.size());
    std::map<int64_t, size_t> to_come;  // several of one sequence
    for (const SampledToken& token : sampled) ++to_come[token.seq_id];
    for (const auto& [request_id, seq_id, token, drafts] : sampled) {
      const SequenceGroup& group = *scheduler().find(request_id);
      const Sequence& seq = *group.find(seq_id);
      const size_t behind = --to_come[seq_id], known = seq.output_tokens().size();
      ASSERT_EQ(seq.output_tokens()[known - behind - 1], token);
      if (seq.finished()) continue;
      const auto length = static_cast<int>(known - behind);
      if (token % kEosOneIn == 0)
        end(request_id, seq_id, SequenceStatus::kFinishedStopped);
      else if (length == group.params().max_tokens())
        end(request_id, seq_id, SequenceStatus::kFinishedLength);
      counts_.completed += seq.finished();
    }
    for (const GroupSpec& spec : live_) {
      const SequenceGroup& group = *scheduler().find(spec.request_id);
      loop_.check_tokens(group);
      for (const auto& seq : group.seqs()) check_ends(*seq);
    }
    if (!one_in(3)) sweep();
  }

  // A sequence ends at its first EOS, not behind it.
  void check_ends(const Sequence& seq) const {
    const auto output = seq.output_tokens();
    const auto eos = std::find_if(output.begin(), output.end(),
                                  [](int32_t token) { return token % kEosOneIn == 0; });
    if (eos == output.end()) return;
    EXPECT_TRUE(eos + 1 == output.end() || config_.speculation.num_tokens > 0) << "surplus";
    EXPECT_TRUE(seq.finished());
  }

  // Wrong results change nothing.
  void refuse(const proto::StepInput& step, std::vector<SampledToken> results) {
    EXPECT_THROW(scheduler().complete_step(answer_of(step.step() + 7, results)),
                 std::runtime_error);
    refuse_pooled(step, results);
    const auto it = std::find_if(results.begin(), results.end(),
                                 [&](const auto& token) { return alone(token, results); });
    if (it == results.end()) return;
    const auto place = it - results.begin();
    results.push_back(SampledToken(*it));
    EXPECT_THROW(scheduler().complete_step(answer_of(step.step(), results)), std::runtime_error);
    results.pop_back();
    results.erase(results.begin() + place);
    EXPECT_THROW(scheduler().complete_step(answer_of(step.step(), results)), std::runtime_error);
    scheduler().check_integrity();
    ++counts_.refused;
  }

  // The only token of a sequence that goes on.
  bool alone(const SampledToken& token, const std::vector<SampledToken>& results) {
    const auto same = [&](const auto& other) { return other.seq_id == token.seq_id; };
    return loop_.running(token) && std::count_if(results.begin(), results.end(), same) == 1;
  }

  // A vector that is missing, comes twice, or is none.
  void refuse_pooled(const proto::StepInput& step, const std::vector<SampledToken>& results) {
    auto pooled = loop_.oldest_pooled();
    const auto it = std::find_if(pooled.begin(), pooled.end(), [&](const auto& one) {
      return loop_.running({one.request_id, one.seq_id, 0}) != nullptr;
    });
    if (it == pooled.end()) return;
    const auto wrong = *it;
    proto::StepOutput answer = answer_of(step.step(), results, pooled);
    const proto::SequenceGroupOutput last = *answer.outputs().rbegin();
    *answer.add_outputs() = last;
    if (loop_.running({pooled.back().request_id, pooled.back().seq_id, 0}) != nullptr) {
      EXPECT_THROW(scheduler().complete_step(answer), std::runtime_error);
    }
    pooled.erase(it);
    EXPECT_THROW(scheduler().complete_step(answer_of(step.step(), results, pooled)),
                 std::runtime_error);
    auto tokens = results;
    tokens.push_back({wrong.request_id, wrong.seq_id, 5});
    EXPECT_THROW(scheduler().complete_step(answer_of(step.step(), tokens, pooled)),
                 std::runtime_error);
  }

  // No arrivals any more: all must end.
  void drain() {
    for (int i = 0; (!live_.empty() || loop_.in_flight() > 0) && !::testing::Test::HasFailure();
         ++i) {
      ASSERT_LT(i, 200'000) << "starvation";
      advance();
      if (!scheduler().has_unfinished()) sweep();
    }
    const BlockManager& blocks = scheduler().block_manager();
    EXPECT_EQ(blocks.device().num_free(), config_.num_device_blocks);
    EXPECT_EQ(blocks.host().num_free(), config_.num_host_blocks);
  }

  SchedulerConfig config_;
  RunAheadLoop loop_;
  std::vector<GroupSpec> live_;
  Counts& counts_;
  int64_t next_seq_ = 0;
};

class SchedulerRunAheadRandom : public ::testing::TestWithParam<std::tuple<int, Drafts, int>> {};

TEST_P(SchedulerRunAheadRandom, EveryRequestGetsItsTokens) {
  const auto [depth, kind, stages] = GetParam();
  const bool drafts = kind != Drafts::kNone;
  Counts counts;
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed, depth, kind, stages, counts).run(200);
    if (HasFailure()) return;
  }
  EXPECT_GE(counts.operations, 20'000);
  EXPECT_GE(counts.steps, 10'000);
  EXPECT_GE(counts.completed, 500);
  EXPECT_GE(counts.resumed, 200);
  EXPECT_GE(counts.aborted, 150);
  EXPECT_GE(counts.aborted_in_flight, 50);
  EXPECT_GE(counts.stopped_in_flight, 50);
  EXPECT_GE(counts.surplus, 100);
  EXPECT_GE(counts.refused, 500);
  EXPECT_GE(counts.swapped_in, 50);
  EXPECT_GE(counts.pooled, 300);
  EXPECT_GE(counts.caches.encoder_hits, 400);
  EXPECT_GE(counts.caches.prefix_hits, 1000);
  EXPECT_GE(counts.caches.evicted_blocks, 3000);
  EXPECT_GE(counts.accepted, drafts ? 1000 : 0);
  EXPECT_EQ(counts.drafted > counts.accepted, drafts) << "some are wrong";
  EXPECT_GE(counts.ahead, stages > 1 ? 3000 : 0);
  EXPECT_GE(counts.several, stages > 2 ? 1000 : 0);
  if (depth == 1 || drafts) return;
  EXPECT_GE(counts.ahead, 5000);
  EXPECT_GE(counts.waited, 100);
  EXPECT_GE(counts.recomputed_pending, 100);
  EXPECT_GE(counts.swapped_pending, 40);
  EXPECT_GE(counts.several, depth > 2 ? 1000 : 0);
}

INSTANTIATE_TEST_SUITE_P(StepsInFlight, SchedulerRunAheadRandom,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(Drafts::kNone, Drafts::kLookedUp,
                                                              Drafts::kByModel),
                                            ::testing::Values(1)));
// As many steps more, of other groups.
INSTANTIATE_TEST_SUITE_P(Stages, SchedulerRunAheadRandom,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Drafts::kNone, Drafts::kLookedUp),
                                            ::testing::Values(2, 3, 4)));

}  // namespace
}  // namespace tandem::scheduler_run_ahead_random_test
