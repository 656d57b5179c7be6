// Drafts in the scheduler, case by case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/scheduler_cases.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::make_group;
using Tokens = std::vector<int32_t>;

SchedulerConfig config_of(int budget, int blocks, int depth = 1) {
  SchedulerConfig config = testing_support::config(budget, blocks);
  config.max_steps_in_flight = depth;
  config.speculation = {.num_tokens = 4, .vocabulary = 10'000};
  return config;
}

class SchedulerDrafts : public testing::Test {
 protected:
  // Its source is 1000 to 1009, which it copies; one token is computed a step, until drafts are
  // likely enough.
  void start(const SchedulerConfig& config, int max_tokens = 20) {
    scheduler_.emplace(config);
    scheduler_->add_seq_group(make_group({.request_id = "a",
                                          .seq_ids = {1},
                                          .encoder_len = 10,
                                          .prompt_len = 2,
                                          .max_tokens = max_tokens}));
  }
  // The drafts of the next step, which is in flight then.
  Tokens schedule() {
    const proto::StepInput step = scheduler_->schedule(0);
    scheduler_->check_integrity();
    has_work_ = has_work(step);
    if (has_work_) number_ = step.step();
    Tokens drafts;
    for (const auto& delta : step.deltas())
      for (const auto& seq : delta.seqs())
        drafts.insert(drafts.end(), seq.draft_token_ids().begin(), seq.draft_token_ids().end());
    return drafts;
  }
  void complete(const Tokens& tokens) {
    std::vector<SampledToken> sampled;
    for (const int32_t token : tokens) sampled.push_back({"a", 1, token});
    scheduler_->complete_step(number_, sampled);
    scheduler_->check_integrity();
  }
  // Copies until there are drafts; returns those that are in flight.
  Tokens run_to_drafts() {
    for (int32_t next = 1000; next < 1010; ++next) {
      const Tokens drafts = schedule();
      if (!drafts.empty()) return drafts;
      complete({next});
    }
    return {};
  }
  std::string error_of(const Tokens& tokens) {
    try {
      complete(tokens);
    } catch (const std::runtime_error& error) {
      scheduler_->check_integrity();
      return error.what();
    }
    return "no error";
  }
  const Sequence& seq() { return *scheduler_->find("a")->seqs()[0]; }

  std::optional<Scheduler> scheduler_;
  uint64_t number_ = 0;
  bool has_work_ = false;
};

TEST_F(SchedulerDrafts, ThatAreRightCountAtOnce) {
  start(config_of(100, 50));
  const Tokens drafts = run_to_drafts();
  ASSERT_FALSE(drafts.empty());
  const int known = seq().num_known_tokens();
  const int32_t next = seq().tokens().back() + 1;
  EXPECT_EQ(drafts.front(), next) << "as the source goes on";
  Tokens all = drafts;
  all.push_back(77);
  complete(all);
  EXPECT_EQ(seq().num_known_tokens(), known + std::ssize(all));
  EXPECT_EQ(seq().num_uncomputed_tokens(), 1);
  EXPECT_EQ(seq().tokens().back(), 77);
  const SpeculationStats& stats = scheduler_->speculation_stats();
  EXPECT_EQ(stats.drafts, 1);
  EXPECT_EQ(stats.draft_tokens, std::ssize(drafts));
  EXPECT_EQ(stats.accepted_tokens, std::ssize(drafts));
  EXPECT_EQ(stats.accepted_per_position[0], 1);
}

TEST_F(SchedulerDrafts, ThatAreWrongCostNothingBehind) {
  start(config_of(100, 50));
  ASSERT_FALSE(run_to_drafts().empty());
  const int known = seq().num_known_tokens();
  complete({77});
  EXPECT_EQ(seq().num_known_tokens(), known + 1);
  EXPECT_EQ(seq().num_uncomputed_tokens(), 1);
  EXPECT_EQ(scheduler_->speculation_stats().accepted_tokens, 0);
}

TEST_F(SchedulerDrafts, AnswersAreChecked) {
  start(config_of(100, 50));
  const Tokens drafts = run_to_drafts();
  ASSERT_FALSE(drafts.empty());
  Tokens all = drafts;
  all.insert(all.end(), {77, 78});
  EXPECT_THAT(error_of(all), HasSubstr("more tokens than drafts"));
  EXPECT_THAT(error_of({77, 78}), HasSubstr("a token behind a draft that was wrong"));
  EXPECT_THAT(error_of({}), HasSubstr("no token"));
  EXPECT_EQ(error_of({drafts[0], 78}), "no error");
}

TEST_F(SchedulerDrafts, StayWithinTheLength) {
  start(config_of(100, 50), /*max_tokens=*/8);
  for (Tokens drafts = run_to_drafts(); !drafts.empty(); drafts = schedule()) {
    EXPECT_LE(seq().output_len() + std::ssize(drafts), 8);
    drafts.push_back(drafts.back() + 1);
    complete(drafts);
  }
  EXPECT_LE(seq().output_len(), 8);
}

TEST_F(SchedulerDrafts, TakeNoBlocksThatOthersNeed) {
  // Cross: 5 blocks. 6 are what the sequence needs in the end.
  start(config_of(100, 5 + 6), /*max_tokens=*/10);
  const BlockManager& blocks = scheduler_->block_manager();
  bool drafted = false;
  for (int32_t next = 1000; next < 1010; ++next) {
    drafted = !schedule().empty() || drafted;
    const int needed = blocks.blocks_for(seq().num_computed_tokens());
    EXPECT_TRUE(blocks.device().num_free() > 0 || std::ssize(blocks.tables().self(seq())) == needed)
        << "the last one is not for drafts";
    complete({next});
  }
  EXPECT_TRUE(drafted);
}

TEST_F(SchedulerDrafts, AreNotRunAheadOf) {
  start(config_of(100, 50, /*depth=*/2));
  std::vector<uint64_t> numbers;
  bool waited = false, drafted = false;
  int32_t next = 1000;
  for (int i = 0; i < 40 && next < 1008; ++i) {
    const int before = scheduler_->steps_in_flight().size();
    if (before < 2) {
      const Tokens drafts = schedule();
      if (has_work_) numbers.push_back(number_);
      waited = waited || (!has_work_ && before == 1);
      if (!drafts.empty()) {
        EXPECT_EQ(before, 0) << "all tokens were known";
        drafted = true;
        EXPECT_THAT(schedule(), IsEmpty());
        EXPECT_FALSE(has_work_);
      } else if (has_work_ && before == 0) {
        continue;  // another one may run ahead
      }
    }
    const uint64_t number = numbers.front();
    numbers.erase(numbers.begin());
    scheduler_->complete_step(number, {{"a", 1, next++}});
    scheduler_->check_integrity();
  }
  EXPECT_TRUE(waited);
  EXPECT_TRUE(drafted);
}

TEST_F(SchedulerDrafts, StopWhereManyRun) {
  SchedulerConfig config = config_of(100, 50);
  config.speculation.disable_by_batch_size = 1;
  start(config);
  scheduler_->add_seq_group(make_group(
      {.request_id = "b", .seq_ids = {7}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 20}));
  for (int32_t next = 1000; next < 1010; ++next) {
    EXPECT_THAT(schedule(), IsEmpty());
    scheduler_->complete_step(number_, {{"a", 1, next}, {"b", 7, next}});
  }
}

TEST_F(SchedulerDrafts, AreForgottenWithTheirSequence) {
  start(config_of(100, 50));
  const Tokens drafts = run_to_drafts();
  ASSERT_FALSE(drafts.empty());
  scheduler_->finish_sequence("a", 1, SequenceStatus::kFinishedStopped);
  scheduler_->check_integrity();
  complete({drafts[0], 78});  // passed over
  EXPECT_EQ(scheduler_->speculation_stats().drafts, 0);
  scheduler_->free_finished_seq_groups();
  EXPECT_EQ(scheduler_->block_manager().device().num_free(), 50);
}

}  // namespace
}  // namespace tandem
