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

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::answer_of;
using testing_support::make_group;
using testing_support::SampledToken;
using Tokens = std::vector<int32_t>;

SchedulerConfig config_of(int budget, int blocks, int depth = 1) {
  SchedulerConfig config = testing_support::config(budget, blocks);
  config.max_steps_in_flight = depth;
  config.speculation = {.num_tokens = 4, .vocabulary = 10'000};
  return config;
}

class SchedulerDrafts : public ::testing::Test {
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
    const proto::StepInput step = scheduler_->schedule(now_);
    scheduler_->check_integrity();
    has_work_ = has_work(step);
    if (has_work_) number_ = step.step();
    Tokens drafts;
    asked_ = 0;
    for (const auto& delta : step.deltas())
      for (const auto& seq : delta.seqs()) {
        drafts.insert(drafts.end(), seq.draft_token_ids().begin(), seq.draft_token_ids().end());
        asked_ += seq.num_drafts();
      }
    prepared_ = step.groups_size() > 0 && step.groups(0).prepare_drafts();
    return drafts;
  }
  // said: by the draft model, if it was asked.
  void complete(const Tokens& tokens, const std::optional<Tokens>& said = {}) {
    std::vector<SampledToken> sampled;
    for (const int32_t token : tokens) sampled.push_back({"a", 1, token});
    if (said) sampled[0].drafts = *said;
    scheduler_->complete_step(answer_of(number_, sampled));
    scheduler_->check_integrity();
  }
  // Workers took so long for the step, whose tokens these are.
  void complete_in(double seconds, const Tokens& tokens) {
    proto::StepOutput output;
    output.set_step(number_);
    output.set_seconds(seconds);
    auto& group = *output.add_outputs();
    group.set_request_id("a");
    for (const int32_t token : tokens) {
      group.add_samples()->set_seq_id(1);
      group.mutable_samples()->rbegin()->set_token_id(token);
    }
    scheduler_->complete_step(output);
    scheduler_->check_integrity();
  }
  // Copies the source to its end, where steps take so long and each draft so much longer, and so
  // much passes between steps; `early` steps go by before `Sums` count.
  struct Sums {
    int steps = 0, drafts = 0;
  };
  Sums copy(double step, double draft, double pause, int early) {
    Sums sums;
    int32_t next = kFirst;
    while (next < kFirst + kSource - 1) {
      const Tokens drafts = schedule();
      if (early-- <= 0) {
        ++sums.steps;
        sums.drafts += static_cast<int>(drafts.size());
      }
      const uint64_t oldest = number_;
      const Tokens ahead = schedule();  // where steps run ahead
      EXPECT_THAT(ahead, IsEmpty());
      const bool runs_ahead = has_work_;
      const auto complete_one = [&](uint64_t number, size_t more) {
        number_ = number;
        Tokens tokens;
        for (size_t i = 0; i <= more; ++i) tokens.push_back(next++);
        const double seconds = step + draft * static_cast<double>(more);
        now_ += seconds;
        complete_in(seconds, tokens);
      };
      complete_one(oldest, drafts.size());
      if (runs_ahead) complete_one(oldest + 1, 0);
      now_ += pause;
    }
    return sums;
  }
  static constexpr int32_t kFirst = 1000, kSource = 1000;
  void start_copying() {
    scheduler_.emplace(config_of(2000, 4000, /*depth=*/2));
    scheduler_->add_seq_group(make_group({.request_id = "a",
                                          .seq_ids = {1},
                                          .encoder_len = kSource,
                                          .prompt_len = 2,
                                          .max_tokens = 2 * kSource}));
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
  std::string error_of(const Tokens& tokens, const std::optional<Tokens>& said = {}) {
    try {
      complete(tokens, said);
    } catch (const std::runtime_error& error) {
      scheduler_->check_integrity();
      return error.what();
    }
    return "no error";
  }
  const Sequence& seq() { return *scheduler_->find("a")->seqs()[0]; }

  std::optional<Scheduler> scheduler_;
  double now_ = 0;
  uint64_t number_ = 0;
  bool has_work_ = false;
  int asked_ = 0;          // of the draft model
  bool prepared_ = false;  // for the group that came in
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

TEST_F(SchedulerDrafts, AreMadeWhereTheyCostLittle) {
  start_copying();
  const Sums sums = copy(/*step=*/1e-3, /*draft=*/1e-6, /*pause=*/1e-6, /*early=*/20);
  EXPECT_GT(sums.drafts, 3 * sums.steps) << "nearly four in each step";
}

TEST_F(SchedulerDrafts, AreNotMadeWhereTheyCostMoreThanTokens) {
  start_copying();
  const Sums sums = copy(1e-3, 2e-3, 1e-6, 40);
  EXPECT_LT(sums.drafts, sums.steps / 10);
}

// Nothing waits for drafts where waiting costs more than they can save.
TEST_F(SchedulerDrafts, AreNotWorthALongPause) {
  start_copying();
  const Sums sums = copy(1e-3, 1e-6, 20e-3, 60);
  EXPECT_LT(sums.drafts, sums.steps / 10);
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
    scheduler_->complete_step(answer_of(number, {{"a", 1, next++}}));
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
    scheduler_->complete_step(answer_of(number_, {{"a", 1, next}, {"b", 7, next}}));
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

// --- Of a draft model ----------------------------------------------------------------------------

SchedulerConfig with_model(int depth = 1) {
  SchedulerConfig config = config_of(100, 50, depth);
  config.speculation.draft_model = true;
  config.speculation.draft_cost = 0.02;
  return config;
}

TEST_F(SchedulerDrafts, OfAModelAreAskedFor) {
  start(with_model());
  EXPECT_THAT(schedule(), IsEmpty());
  EXPECT_TRUE(prepared_);
  EXPECT_EQ(asked_, 0) << "in full";
  complete({2001});
  EXPECT_THAT(schedule(), IsEmpty());
  ASSERT_GT(asked_, 1);
  const int known = seq().num_known_tokens();
  EXPECT_GE(std::ssize(scheduler_->block_manager().tables().self(seq())),
            scheduler_->block_manager().blocks_for(known + asked_));
  complete({2002, 2003, 77}, Tokens{2002, 2003});
  EXPECT_EQ(seq().num_known_tokens(), known + 3);
  EXPECT_EQ(seq().num_uncomputed_tokens(), 1);
  const SpeculationStats& stats = scheduler_->speculation_stats();
  EXPECT_EQ(stats.drafts, 1);
  EXPECT_EQ(stats.draft_tokens, 2);
  EXPECT_EQ(stats.accepted_tokens, 2);
}

TEST_F(SchedulerDrafts, OfAModelAreChecked) {
  start(with_model());
  schedule();
  EXPECT_THAT(error_of({2001}, Tokens{5}), HasSubstr("none were asked for"));
  complete({2001});
  schedule();
  ASSERT_GT(asked_, 0);
  EXPECT_THAT(error_of({5, 6, 7}, Tokens{5}), HasSubstr("more tokens than drafts"));
  EXPECT_THAT(error_of({5, 6}, Tokens{8, 9}), HasSubstr("behind a draft that was wrong"));
  EXPECT_THAT(error_of({5}, Tokens(static_cast<size_t>(asked_) + 1, 5)),
              HasSubstr("more drafts than were asked for"));
  EXPECT_THAT(error_of({5, 6}), HasSubstr("more tokens than drafts"));
  EXPECT_EQ(error_of({5}, Tokens{}), "no error") << "nothing was likely";
}

TEST_F(SchedulerDrafts, OfAModelThatCannotAreNotAskedForAgain) {
  start(with_model());
  schedule();
  complete({2001});
  schedule();
  ASSERT_GT(asked_, 0);
  complete({2002});
  schedule();
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(scheduler_->speculation_stats().drafts, 0);
}

TEST_F(SchedulerDrafts, OfAModelAreWaitedFor) {
  start(with_model(2));
  schedule();
  EXPECT_TRUE(has_work_);
  schedule();
  EXPECT_FALSE(has_work_) << "drafts are worth more than running ahead";
  complete({2001});
  schedule();
  EXPECT_GT(asked_, 0);
  const uint64_t number = number_;
  schedule();
  EXPECT_FALSE(has_work_) << "nobody knows how long it is";
  number_ = number;
  complete({2002}, Tokens{5});
}

TEST_F(SchedulerDrafts, OfAModelAmongMany) {
  SchedulerConfig config = with_model();
  config.speculation.disable_by_batch_size = 1;
  start(config);
  scheduler_->add_seq_group(make_group({.request_id = "b", .seq_ids = {2}, .max_tokens = 5}));
  schedule();
  EXPECT_FALSE(prepared_);
}

}  // namespace
}  // namespace tandem
