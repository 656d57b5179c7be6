// A planned batch on one rank of a group, with what each step computed and exchanged.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/support/scaling_layout.h"
#include "benchmarks/support/scaling_plan.h"
#include "benchmarks/support/scaling_work.h"
#include "benchmarks/support/step_trace.h"
#include "models/load_model.h"
#include "parallel/communicators/subgroup.h"
#include "runtime/execution/model_runner.h"

namespace tandem::bench {

struct ScalingStep {
  double begin = 0, end = 0;  // seconds of the host's steady clock
  double exchange = 0;        // of these within calls of communicators, waiting included
  double core = 0;            // seconds that the rank's thread had a core
  Traffic sums, messages;     // made by this rank
  double computation() const { return end - begin - exchange; }
};

struct RankResult {
  std::vector<std::vector<int32_t>> tokens;  // by request and round; on the last stage
  std::vector<ScalingStep> steps;
};

inline double clock_seconds(clockid_t clock = CLOCK_MONOTONIC) {
  return 1e-9 * static_cast<double>(clock_ns(clock));
}

// One thread computes on each rank.
class ScalingRank {
 public:
  ScalingRank(const std::filesystem::path& model, const ScalingLayout& layout,
              std::shared_ptr<Communicator> group)
      : ctx_(1), group_(std::move(group)), config_(ModelConfig::load(model)) {
    Checkpoint checkpoint = Checkpoint::open(model);
    const int stage = layout.stage_of(group_->rank());
    own_ = layout.pp == 1 ? group_ : make_subgroup(group_, stage * layout.tp, layout.tp);
    const Stage layers = stages_of(layout, config_, checkpoint).at(static_cast<size_t>(stage));
    Build build{ctx_, *own_, DType::kF32};
    if (layout.pp > 1) {
      build.encoder_layers = layers.encoder;
      build.decoder_layers = layers.decoder;
      pipeline_ = std::make_shared<Pipeline>(ctx_, group_, /*by_device=*/false, layout.pp, layers);
    }
    model_ = load_model(config_, checkpoint, build);
  }

  // Once. begin_round: waits until all ranks of all groups are there. around_step: of each step;
  // calls what it is given.
  using AroundStep = std::function<void(const std::function<void()>& step)>;
  RankResult run(const ScalingCase& c, const ScalingPlan& plan,
                 const std::function<void()>& begin_round, const AroundStep& around_step = {}) {
    const auto runner = make_model_runner(
        {.ctx = ctx_, .comm = *own_, .model = std::move(model_), .pipeline = pipeline_},
        {.block_size = ScalingPlanner::kBlock, .num_device_blocks = ScalingPlanner::blocks_of(c)});
    RankResult result;
    result.tokens.resize(static_cast<size_t>(c.batch * c.rounds));
    size_t round = 0;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      if (round < plan.rounds.size() && plan.rounds[round] == i) {
        ++round;
        begin_round();
      }
      proto::StepOutput output;
      const auto execute = [&] {
        ScalingStep step = before();
        output = runner->execute(plan.steps[i]);
        result.steps.push_back(after(step));
      };
      around_step ? around_step(execute) : execute();
      for (const auto& group : output.outputs())
        for (const auto& sample : group.samples())
          result.tokens.at(static_cast<size_t>(sample.seq_id() / 2)).push_back(sample.token_id());
    }
    return result;
  }

 private:
  ScalingStep before() const {
    ScalingStep step;
    step.begin = clock_seconds();
    step.core = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    step.exchange = seconds_of(group_->stats());
    step.sums = traffic_of(own_->stats());
    step.messages = traffic_of(group_->stats());
    return step;
  }
  // Calls of a stage's group are made of messages of the whole one.
  ScalingStep after(const ScalingStep& before) const {
    const ScalingStep now = this->before();
    const auto since = [](const Traffic& then, const Traffic& now) {
      return Traffic{now.calls - then.calls, now.bytes - then.bytes};
    };
    ScalingStep out;
    out.begin = before.begin;
    out.end = now.begin;
    out.core = now.core - before.core;
    out.exchange = now.exchange - before.exchange;
    out.sums = since(before.sums, now.sums);
    if (pipeline_) out.messages = since(before.messages, now.messages);
    return out;
  }
  static double seconds_of(const CommunicatorStats& stats) {
    return std::chrono::duration<double>(stats.time).count();
  }
  static Traffic traffic_of(const CommunicatorStats& stats) { return {stats.calls, stats.bytes}; }

  Context ctx_;
  std::shared_ptr<Communicator> group_, own_;  // of the stages; of this one
  ModelConfig config_;
  std::shared_ptr<Pipeline> pipeline_;
  std::unique_ptr<Model> model_;
};

}  // namespace tandem::bench
