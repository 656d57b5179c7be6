// The loop of an engine around a scheduler, with a fake worker and the rules checked on every step.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/fake_worker.h"
#include "tests/support/scheduling/naive_scheduler.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::testing_support {

class EngineLoop {
 public:
  explicit EngineLoop(const SchedulerConfig& config, uint32_t seed = 1)
      : scheduler_(config), rules_(config, scheduler_), worker_(config, seed) {}

  Scheduler& scheduler() { return scheduler_; }
  const NaiveScheduler& rules() const { return rules_; }
  const FakeWorker& worker() const { return worker_; }
  double now() const { return now_; }
  int num_pooled() const { return num_pooled_; }  // groups that ended so

  // Throws what add_seq_group() throws.
  void add(const GroupSpec& spec) {
    auto group = make_group(spec);
    const SequenceGroup* added = group.get();
    scheduler_.add_seq_group(std::move(group));
    rules_.added(*added);
    for (const auto& seq : added->seqs()) remember(*seq);
    remember(added->encoder_seq());
  }

  proto::StepInput schedule() {
    now_ += 1;
    proto::StepInput step = rules_.schedule(now_);
    live_ = rules_.live_blocks();
    return step;
  }

  // Computes the step and completes it. Returns what was appended to sequences that go on.
  std::vector<SampledToken> complete(const proto::StepInput& step) {
    worker_.expect(truth_, live_);
    const proto::StepOutput answer = worker_.execute(step);
    std::vector<SampledToken> sampled = worker_.sampled();
    if (has_work(step)) scheduler_.complete_step(answer);
    for (const PooledSequence& one : worker_.pooled()) {
      const SequenceGroup* group = scheduler_.find(one.request_id);
      EXPECT_TRUE(group == nullptr || group->finished()) << "one step is all it takes";
      num_pooled_ += group != nullptr;
    }
    std::erase_if(sampled, [&](const SampledToken& token) { return !running(token); });
    for (const SampledToken& token : sampled) truth_.at(token.seq_id).push_back(token.token);
    return sampled;
  }

  // Finishes the sequences that have got all their tokens, and frees the groups that have ended.
  void finish(const std::vector<SampledToken>& sampled) {
    for (const SampledToken& token : sampled) {
      const SequenceGroup& group = *scheduler_.find(token.request_id);
      if (group.find(token.seq_id)->output_len() == group.params().max_tokens())
        scheduler_.finish_sequence(token.request_id, token.seq_id, SequenceStatus::kFinishedLength);
    }
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
  }

  proto::StepInput step() {
    proto::StepInput step = schedule();
    finish(complete(step));
    return step;
  }

  // All steps to the end; fails after `bound`.
  std::vector<proto::StepInput> run(int bound) {
    std::vector<proto::StepInput> steps;
    while (scheduler_.has_unfinished() && !::testing::Test::HasFailure()) {
      if (static_cast<int>(steps.size()) == bound) {
        ADD_FAILURE() << "not done after " << bound << " steps";
        break;
      }
      steps.push_back(step());
      EXPECT_TRUE(has_work(steps.back())) << "no progress";
    }
    return steps;
  }

  // Steps up to the first one with a group in full.
  proto::StepInput run_until_full_metadata() {
    for (int i = 0; i < 100; ++i) {
      proto::StepInput step = this->step();
      if (step.groups_size() > 0) return step;
    }
    ADD_FAILURE() << "no group comes in";
    proto::StepInput none;
    none.add_groups()->add_seq_data();
    return none;
  }

  const std::vector<int32_t>& tokens(int64_t seq_id) const { return truth_.at(seq_id); }

 private:
  void remember(const Sequence& seq) {
    truth_[seq.seq_id()].assign(seq.tokens().begin(), seq.tokens().end());
  }
  bool running(const SampledToken& token) {
    const SequenceGroup* group = scheduler_.find(token.request_id);
    return group != nullptr && !group->find(token.seq_id)->finished();
  }

  Scheduler scheduler_;
  NaiveScheduler rules_;
  FakeWorker worker_;
  FakeWorker::Truth truth_;
  FakeWorker::LiveBlocks live_;
  double now_ = 0;
  int num_pooled_ = 0;
};

}  // namespace tandem::testing_support
