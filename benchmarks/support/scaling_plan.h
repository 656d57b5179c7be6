// The steps of a batch of equal requests, planned before anything runs: which sequences are in a
// step does not depend on what the model says. All ranks of a group get the same messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/make_sequence_group.h"
#include "runtime/scheduling/scheduler.h"
#include "runtime/scheduling/steps/step_message_writer.h"

namespace tandem::bench {

struct ScalingCase {
  int batch = 8, source_tokens = 32, new_tokens = 16;  // of a group
  int rounds = 1;                                      // the batch again, when all have ended
  int first_request = 0;  // groups of data parallelism have different requests
};

// What a step computes: tokens, and pairs of a token with one that it attends to.
struct StepShape {
  int64_t encoder_rows = 0, decoder_rows = 0, sampled_rows = 0;
  int64_t encoder_pairs = 0, self_pairs = 0, cross_pairs = 0;
  // Steps whose tokens a stage before the last one hears before this one, and their rows.
  int64_t heard = 0, heard_rows = 0;
};

struct ScalingPlan {
  std::vector<proto::StepInput> steps;
  std::vector<StepShape> shapes;
  std::vector<size_t> rounds;  // the first step of each
};

class ScalingPlanner {
 public:
  ScalingPlanner(const ScalingCase& c, int stages) : c_(c), scheduler_(config_of(c, stages)) {
    most_in_flight_ = config_of(c, stages).most_in_flight();
  }

  static int blocks_of(const ScalingCase& c) {
    return c.batch * ((c.source_tokens + kBlock - 1) / kBlock + c.new_tokens / kBlock + 2);
  }
  static constexpr int kBlock = 16;

  ScalingPlan plan() {
    for (int round = 0; round < c_.rounds; ++round) {
      out_.rounds.push_back(out_.steps.size());
      for (int i = 0; i < c_.batch; ++i)
        scheduler_.add_seq_group(make_sequence_group(request(round * c_.batch + i)));
      while (scheduler_.has_unfinished() || completed_ < out_.steps.size()) {
        schedule();
        complete();
      }
    }
    return std::move(out_);
  }

 private:
  static SchedulerConfig config_of(const ScalingCase& c, int stages) {
    SchedulerConfig config;
    config.max_num_seqs = c.batch;
    config.max_num_batched_tokens = 4096;
    config.block_size = kBlock;
    config.num_device_blocks = blocks_of(c);
    config.stages = stages;
    return config;
  }

  // Source tokens differ between requests; the model has more than 1000 ids.
  proto::AddRequest request(int number) const {
    const int seed = c_.first_request + number % c_.batch;
    proto::AddRequest add;
    add.set_request_id(std::to_string(number));
    for (int t = 0; t < c_.source_tokens; ++t)
      add.mutable_inputs()->add_encoder_prompt_token_ids(10 + (seed * 131 + t * 17) % 900);
    add.mutable_inputs()->add_prompt_token_ids(2);
    add.mutable_sampling_params()->set_n(1);
    add.mutable_sampling_params()->set_ignore_eos(true);
    add.mutable_sampling_params()->set_max_tokens(c_.new_tokens);
    add.set_first_seq_id(2 * number);
    add.add_seqs();
    return add;
  }

  void schedule() {
    while (static_cast<int>(out_.steps.size() - completed_) < most_in_flight_) {
      proto::StepInput step = scheduler_.schedule(0);
      if (!has_work(step)) return;
      out_.shapes.push_back(shape_of(step));
      out_.steps.push_back(std::move(step));
    }
  }

  StepShape shape_of(const proto::StepInput& step) {
    StepShape shape;
    // Tokens are heard in the order of the steps, up to the last one that this step needs; none
    // stays unheard for more than 15 steps.
    const size_t own = out_.shapes.size();
    size_t need = own > 15 ? own - 15 : 0;
    const auto add_seq = [&](const std::string& id, int64_t rows) {
      const auto [it, fresh] = last_step_.emplace(id, own);
      if (!fresh) need = std::max(need, it->second + 1);
      it->second = own;
      shape.decoder_rows += rows;
      ++shape.sampled_rows;
      for (int64_t i = 0; i < rows; ++i) shape.self_pairs += ++length_[id];
      shape.cross_pairs += rows * c_.source_tokens;
    };
    for (const auto& group : step.groups()) {
      const int64_t rows = group.encoder_seq_data().token_chunk_size();
      shape.encoder_rows += rows;
      shape.encoder_pairs += rows * rows;
      for (const auto& seq : group.seq_data()) add_seq(group.request_id(), seq.token_chunk_size());
    }
    for (const auto& group : step.deltas())
      for (const auto& seq : group.seqs()) add_seq(group.request_id(), seq.token_chunk_size());
    for (; heard_ < need; ++heard_) {
      ++shape.heard;
      shape.heard_rows += out_.shapes[heard_].sampled_rows;
    }
    return shape;
  }

  // Any token will do.
  void complete() {
    const proto::StepInput& step = out_.steps[completed_++];
    proto::StepOutput output;
    output.set_step(step.step());
    const auto answer = [&](const std::string& id, int64_t seq_id) {
      proto::SequenceGroupOutput& group = *output.add_outputs();
      group.set_request_id(id);
      group.set_seq_id(seq_id);
      proto::SequenceOutput& sample = *group.add_samples();
      sample.set_seq_id(seq_id);
      sample.set_token_id(5);
    };
    for (const auto& group : step.groups()) answer(group.request_id(), group.seq_data(0).seq_id());
    for (const auto& group : step.deltas()) answer(group.request_id(), group.seqs(0).seq_id());
    scheduler_.complete_step(output);
    for (const auto& group : output.outputs())
      if (++answers_[group.request_id()] == c_.new_tokens)
        scheduler_.finish_sequence(group.request_id(), group.seq_id(),
                                   SequenceStatus::kFinishedLength);
    scheduler_.free_finished_seq_groups();
  }

  ScalingCase c_;
  Scheduler scheduler_;
  int most_in_flight_;
  ScalingPlan out_;
  size_t completed_ = 0, heard_ = 0;
  std::map<std::string, size_t> last_step_;
  std::map<std::string, int64_t> length_;
  std::map<std::string, int> answers_;
};

inline ScalingPlan plan_steps(const ScalingCase& c, int stages) {
  return ScalingPlanner(c, stages).plan();
}

}  // namespace tandem::bench
