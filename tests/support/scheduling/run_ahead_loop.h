// An engine that schedules ahead of its worker: steps are executed in order, some time after they
// were scheduled, and their results are delivered in order, some time after that. The rules are
// checked on every step, and all sequences against what the worker must have sampled.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/fake_worker.h"
#include "tests/support/scheduling/naive_scheduler.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::testing_support {

class RunAheadLoop {
 public:
  explicit RunAheadLoop(const SchedulerConfig& config, uint32_t seed = 1)
      : config_(config),
        seed_(seed),
        scheduler_(config),
        rules_(config, scheduler_),
        worker_(config, seed) {}

  Scheduler& scheduler() { return scheduler_; }
  const NaiveScheduler& rules() const { return rules_; }
  const FakeWorker& worker() const { return worker_; }
  double now() const { return now_; }

  // Throws what add_seq_group() throws.
  void add(const GroupSpec& spec) {
    auto group = make_group(spec);
    const SequenceGroup* added = group.get();
    scheduler_.add_seq_group(std::move(group));
    rules_.added(*added);
    for (const auto& seq : added->seqs()) remember(*seq);
    remember(added->encoder_seq());
    scheduler_.check_integrity();
  }
  bool abort(const std::string& request_id) {
    const bool known = scheduler_.abort_seq_group(request_id);
    rules_.sweep();
    scheduler_.check_integrity();
    return known;
  }

  void free_finished() {
    scheduler_.free_finished_seq_groups();
    rules_.sweep();
    scheduler_.check_integrity();
  }

  int in_flight() const { return static_cast<int>(flights_.size()); }
  bool can_schedule() const { return in_flight() < config_.most_in_flight(); }
  bool can_execute() const { return !flights_.empty() && !flights_.back().executed; }
  bool can_deliver() const { return !flights_.empty() && flights_.front().executed; }

  // A step without work is returned, but not in flight.
  proto::StepInput schedule() {
    now_ += 1;
    proto::StepInput step = rules_.schedule(now_);
    if (!has_work(step)) return step;
    EXPECT_EQ(step.step(), ++last_step_) << "numbers are consecutive";
    flights_.push_back({step, rules_.live_blocks(), false, {}});
    return step;
  }

  // The worker runs the first step that it has not run.
  void execute() {
    const auto it = std::find_if(flights_.begin(), flights_.end(),
                                 [](const Flight& flight) { return !flight.executed; });
    worker_.expect(truth_, it->live);
    worker_.execute(it->step);
    it->sampled = worker_.sampled();
    it->pooled = worker_.pooled();
    it->executed = true;
    for (const SampledToken& token : it->sampled) truth_.at(token.seq_id).push_back(token.token);
  }

  const proto::StepInput& oldest_step() const { return flights_.front().step; }
  const std::vector<SampledToken>& oldest_results() const { return flights_.front().sampled; }
  const std::vector<PooledSequence>& oldest_pooled() const { return flights_.front().pooled; }
  int num_pooled() const { return num_pooled_; }  // groups that ended so
  // The results of the oldest step reach the scheduler. Returns those of sequences that go on.
  std::vector<SampledToken> deliver() {
    std::vector<SampledToken> sampled = oldest_results();
    scheduler_.complete_step(answer_of(oldest_step().step(), sampled, oldest_pooled()));
    scheduler_.check_integrity();
    for (const PooledSequence& one : oldest_pooled()) {
      const SequenceGroup* group = scheduler_.find(one.request_id);
      const Sequence* seq = group == nullptr ? nullptr : group->find(one.seq_id);
      EXPECT_TRUE(seq == nullptr || seq->finished()) << "one step is all it takes";
      num_pooled_ += seq != nullptr;
    }
    flights_.pop_front();
    std::erase_if(sampled, [&](const SampledToken& token) { return running(token) == nullptr; });
    return sampled;
  }

  // The sequence of a token, if it has not ended.
  const Sequence* running(const SampledToken& token) {
    const SequenceGroup* group = scheduler_.find(token.request_id);
    const Sequence* seq = group == nullptr ? nullptr : group->find(token.seq_id);
    return seq == nullptr || seq->finished() ? nullptr : seq;
  }

  // Prompt and output of an unbounded sequence with that output length.
  std::vector<int32_t> expected(const std::string& request_id, const Sequence& seq) const {
    std::vector<int32_t> tokens(seq.prompt_tokens().begin(), seq.prompt_tokens().end());
    while (tokens.size() < seq.tokens().size())
      tokens.push_back(FakeWorker::token_of(seed_, request_id, seq.index(),
                                            static_cast<int>(tokens.size()) - 1, tokens.back(),
                                            config_.speculation.num_tokens > 0));
    return tokens;
  }
  void check_tokens(const SequenceGroup& group) const {
    for (const auto& seq : group.seqs()) {
      const auto tokens = seq->tokens();
      ASSERT_EQ(std::vector<int32_t>(tokens.begin(), tokens.end()),
                expected(group.request_id(), *seq));
      ASSERT_LE(seq->output_len(), group.params().max_tokens());
    }
  }

 private:
  struct Flight {
    proto::StepInput step;
    FakeWorker::LiveBlocks live;
    bool executed;
    std::vector<SampledToken> sampled;
    std::vector<PooledSequence> pooled = {};
  };

  void remember(const Sequence& seq) {
    truth_[seq.seq_id()].assign(seq.tokens().begin(), seq.tokens().end());
  }

  SchedulerConfig config_;
  uint32_t seed_;
  Scheduler scheduler_;
  NaiveScheduler rules_;
  FakeWorker worker_;
  FakeWorker::Truth truth_;  // as of the last step that was executed
  std::deque<Flight> flights_;
  uint64_t last_step_ = 0;
  double now_ = 0;
  int num_pooled_ = 0;
};

}  // namespace tandem::testing_support
