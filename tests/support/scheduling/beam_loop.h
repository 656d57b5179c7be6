// A scheduler and a worker without a model (beam_worker.h), a step at a time.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/make_sequence_group.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/beam_worker.h"

namespace tandem::testing_support {

// The worker runs a step as soon as it is scheduled; answers wait.
class BeamLoop {
 public:
  explicit BeamLoop(const SchedulerConfig& config)
      : config_(config), scheduler_(config), worker_(config) {}

  void add(const proto::AddRequest& request) {
    scheduler_.add_seq_group(make_sequence_group(request));
  }
  proto::StepInput schedule() {
    proto::StepInput step = scheduler_.schedule(now_ += 1);
    scheduler_.check_integrity();
    if (has_work(step)) answers.push_back(worker_.execute(step));
    return step;
  }
  void complete() {
    const proto::StepOutput answer = std::move(answers.front());
    answers.pop_front();
    scheduler_.complete_step(answer);
    scheduler_.check_integrity();
    for (const auto& result : scheduler_.take_beam_results()) results[result.request_id()] = result;
    for (const auto& group : answer.outputs())
      for (const auto& sample : group.samples()) end_greedy(group.request_id(), sample.seq_id());
    scheduler_.free_finished_seq_groups();
    scheduler_.check_integrity();
  }
  void run_to_end() {
    for (int i = 0; scheduler_.has_unfinished() || !answers.empty(); ++i) {
      ASSERT_LT(i, 1000) << "no progress";
      if (std::ssize(answers) < config_.most_in_flight()) schedule();
      if (!answers.empty()) complete();
    }
    EXPECT_EQ(free_blocks(), config_.num_device_blocks);
    EXPECT_EQ(scheduler_.block_manager().host().num_free(), config_.num_host_blocks);
  }

  Scheduler& scheduler() { return scheduler_; }
  int free_blocks() const { return scheduler_.block_manager().device().num_free(); }
  const SequenceGroup& group(const std::string& id) { return *scheduler_.find(id); }
  std::vector<Blocks> tables(const std::string& id) {
    std::vector<Blocks> out;
    for (const auto& seq : group(id).seqs())
      out.push_back(scheduler_.block_manager().tables().self(*seq));
    return out;
  }
  std::vector<int> pending(const std::string& id) {
    std::vector<int> out;
    for (const auto& seq : group(id).seqs()) out.push_back(seq->num_pending_tokens());
    return out;
  }
  std::vector<std::vector<int32_t>> tokens(const std::string& id) {
    std::vector<std::vector<int32_t>> out;
    for (const auto& seq : group(id).seqs())
      out.emplace_back(seq->tokens().begin(), seq->tokens().end());
    return out;
  }
  std::string error_of(const proto::StepOutput& answer) {
    try {
      scheduler_.complete_step(answer);
    } catch (const std::runtime_error& error) {
      scheduler_.check_integrity();
      return error.what();
    }
    return "no error";
  }

  std::deque<proto::StepOutput> answers;  // oldest first
  std::map<std::string, proto::BeamResult> results;

 private:
  void end_greedy(const std::string& id, int64_t seq_id) {
    const SequenceGroup* group = scheduler_.find(id);
    if (group == nullptr || group->beams() != nullptr) return;
    const Sequence* seq = group->find(seq_id);
    if (std::ssize(seq->output_tokens()) == group->params().max_tokens())
      scheduler_.finish_sequence(id, seq_id, SequenceStatus::kFinishedLength);
  }

  SchedulerConfig config_;
  Scheduler scheduler_;
  BeamWorker worker_;
  double now_ = 0;
};

}  // namespace tandem::testing_support
