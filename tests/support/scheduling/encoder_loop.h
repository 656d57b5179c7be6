// A scheduler with encoders on ranks of their own, a rank that runs decoders, and those that run
// encoders. Each works when it is told to. FakeWorker checks every key that is read. So it
// finds a group that runs before its encoder's result was taken, and a result out of order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/fake_worker.h"
#include "tests/support/scheduling/scheduler_cases.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::testing_support {

class EncoderLoop {
 public:
  explicit EncoderLoop(const SchedulerConfig& config)
      : config_(config), scheduler_(config), worker_(config, 1) {
    for (int i = 0; i < config.encoder_ranks; ++i)
      tables_.emplace_back(SequenceLimits{
          .block_size = config.block_size,
          .num_device_blocks = std::max(config.num_device_blocks, EncoderSteps::kTokensOfStep),
          .whole_prompts = config.whole_prompts});
    steps_.resize(tables_.size());
    sent_.resize(tables_.size());
  }

  Scheduler& scheduler() { return scheduler_; }
  int first() const { return config_.first_encoder_rank; }
  int in_flight() const { return static_cast<int>(flights_.size()); }
  bool can_schedule() const { return in_flight() < config_.most_in_flight(); }
  int under_way(int rank) const { return static_cast<int>(steps_[index(rank)].size()); }
  int sent(int rank) const { return static_cast<int>(sent_[index(rank)].size()); }

  void add(const GroupSpec& spec) {
    auto group = make_group(spec);
    const SequenceGroup& added = *group;
    scheduler_.add_seq_group(std::move(group));
    names_.insert(spec.request_id);
    for (const auto& seq : added.seqs())
      truth_[seq->seq_id()].assign(seq->tokens().begin(), seq->tokens().end());
    const auto source = added.encoder_seq().tokens();
    truth_[added.encoder_seq().seq_id()].assign(source.begin(), source.end());
    scheduler_.check_integrity();
  }

  proto::StepInput schedule() {
    proto::StepInput step = scheduler_.schedule(++now_);
    scheduler_.check_integrity();
    for (const auto& group : step.groups()) EXPECT_FALSE(group.compute_encoder());
    if (has_work(step)) flights_.push_back({step, FakeWorker::live_blocks(scheduler_, names_)});
    return step;
  }

  // Steps for encoders' ranks, as far as there is work and credit.
  std::vector<std::string> schedule_encoders() {
    std::vector<std::string> all;
    while (true) {
      proto::StepInput step;
      const auto rank = scheduler_.schedule_encoders(now_, step);
      scheduler_.check_integrity();
      if (!rank) {
        EXPECT_EQ(step.groups_size(), 0);
        return all;
      }
      check_encoder_step(*rank, step);
      for (const std::string& one : work(step)) all.push_back(std::to_string(*rank) + " " + one);
      steps_[index(*rank)].push_back(step);
    }
  }

  // The rank computes its oldest step, and its answer arrives.
  void encode(int rank) {
    const proto::StepInput step = steps_[index(rank)].front();
    steps_[index(rank)].pop_front();
    const auto groups = tables_[index(rank)].apply(step);
    tables_[index(rank)].check_integrity();
    proto::StepOutput output;
    output.set_step(step.step());
    for (const WorkerGroup* group : groups) {
      EXPECT_TRUE(group->compute_encoder);
      proto::SequenceGroupOutput& answer = *output.add_outputs();
      answer.set_request_id(group->request_id);
      answer.set_seq_id(group->seqs[0].seq_id);
      if (group->pools())
        answer.mutable_embedding()->add_values(1);
      else
        sent_[index(rank)].push_back(group->encoder.seq_id);
    }
    tables_[index(rank)].advance(groups);
    if (step.step() % 5 == 0) refuse(rank, output);
    scheduler_.complete_encoders(rank, output, now_);
    scheduler_.check_integrity();
  }

  // The decoders' rank computes the oldest step, and its answer arrives.
  std::vector<SampledToken> decode() {
    const auto [step, live] = flights_.front();
    for (const proto::EncoderTake& take : step.takes()) {
      std::deque<int64_t>& sent = sent_.at(index(take.rank()));
      EXPECT_FALSE(sent.empty()) << "nothing was sent";
      if (sent.empty()) break;
      EXPECT_EQ(sent.front(), take.seq_id()) << "in the order in which it was asked for";
      sent.pop_front();
    }
    worker_.expect(truth_, live);
    worker_.execute(step);
    flights_.pop_front();
    const std::vector<SampledToken> sampled = worker_.sampled();
    for (const SampledToken& token : sampled) truth_.at(token.seq_id).push_back(token.token);
    scheduler_.complete_step(answer_of(step.step(), sampled));
    scheduler_.check_integrity();
    for (const SampledToken& token : sampled) {
      const SequenceGroup* group = scheduler_.find(token.request_id);
      const Sequence* seq = group == nullptr ? nullptr : group->find(token.seq_id);
      if (seq == nullptr || seq->finished()) continue;
      if (static_cast<int>(seq->output_tokens().size()) == group->params().max_tokens())
        scheduler_.finish_sequence(token.request_id, token.seq_id, SequenceStatus::kFinishedLength);
    }
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
    return sampled;
  }

 private:
  struct Flight {
    proto::StepInput step;
    FakeWorker::LiveBlocks live;
  };

  size_t index(int rank) const { return static_cast<size_t>(rank - config_.first_encoder_rank); }

  void check_encoder_step(int rank, const proto::StepInput& step) {
    EXPECT_TRUE(scheduler_.encoder_steps().is_encoder_rank(rank));
    EXPECT_LE(steps_[index(rank)].size() + 1, EncoderSteps::kStepsOfRank);
    EXPECT_EQ(step.step(), ++numbers_[rank]);
    EXPECT_EQ(step.deltas_size() + step.takes_size() + step.copy_size(), 0);
    int tokens = 0, block = 0;
    for (const auto& group : step.groups()) {
      tokens += group.encoder_seq_data().encoder_length();
      for (const int32_t one : group.cross_block_table().blocks()) EXPECT_EQ(one, block++);
    }
    EXPECT_TRUE(step.groups_size() == 1 || tokens <= config_.max_num_batched_tokens);
  }

  void refuse(int rank, proto::StepOutput output) {
    const auto expect_refused = [&](const proto::StepOutput& wrong) {
      EXPECT_THROW(scheduler_.complete_encoders(rank, wrong, now_), std::runtime_error);
      scheduler_.check_integrity();
    };
    proto::StepOutput wrong = output;
    wrong.set_step(output.step() + 1);
    expect_refused(wrong);
    wrong = output;
    wrong.mutable_outputs()->RemoveLast();
    expect_refused(wrong);
    wrong = output;
    wrong.mutable_outputs(0)->set_request_id("another");
    expect_refused(wrong);
    wrong = output;
    if (wrong.outputs(0).has_embedding())
      wrong.mutable_outputs(0)->clear_embedding();
    else
      wrong.mutable_outputs(0)->mutable_embedding()->add_values(1);
    expect_refused(wrong);
    wrong = output;
    wrong.mutable_outputs(0)->add_samples()->set_token_id(3);
    expect_refused(wrong);
  }

  std::set<std::string> names_;  // that requests have had
  SchedulerConfig config_;
  Scheduler scheduler_;
  FakeWorker worker_;
  FakeWorker::Truth truth_;
  std::vector<SequenceTable> tables_;                // of the encoders' ranks
  std::vector<std::deque<proto::StepInput>> steps_;  // that they are to compute
  std::vector<std::deque<int64_t>> sent_;            // sources on their way to the decoders
  std::map<int, uint64_t> numbers_;
  std::deque<Flight> flights_;
  double now_ = 0;
};

}  // namespace tandem::testing_support
