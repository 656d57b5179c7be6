// What a SchedulerActor is: the step loop of one replica, a new one for each generation of its
// workers, and its messages to them and to the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/step_loop.h"
#include "tests/support/simulation/simulated_group.h"
#include "tests/support/simulation/simulated_keys.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

class SchedulerListener {
 public:
  virtual ~SchedulerListener() = default;
  // step: null if the event is of none.
  virtual void scheduler_event(const proto::SchedulerEvent& event,
                               const proto::StepOutput* step) = 0;
  virtual void scheduler_fault(int replica, uint64_t generation, const std::string& cause) = 0;
};

class SimulatedScheduler {
 public:
  SimulatedScheduler(World& world, SchedulerListener& listener, int replica)
      : world_(world), listener_(listener), replica_(replica) {}

  const std::optional<StepLoop>& loop() const { return loop_; }
  uint64_t num_preemptions() const { return num_preemptions_; }
  uint64_t num_accepted() const { return num_accepted_; }  // drafts

  void up(uint64_t generation, SimulatedGroup& workers, const SchedulerConfig& config) {
    generation_ = generation;
    workers_ = &workers;
    to_workers_.assign(static_cast<size_t>(workers.size()), Link());
    loop_.emplace(config, kSimulatedVocab);
    proto::SchedulerEvent event;
    event.mutable_up();
    tell_engine(std::move(event));
  }
  // The requests of steps in flight; nothing: the generation was not up.
  std::optional<std::vector<std::string>> down(uint64_t generation, const std::string& cause,
                                               bool crashed) {
    if (!loop_ || generation != generation_) return std::nullopt;
    proto::SchedulerEvent event;
    event.mutable_down()->set_cause(cause);
    event.mutable_down()->set_crashed(crashed);
    auto in_flight = loop_->in_flight_request_ids();
    for (const std::string& id : in_flight) event.mutable_down()->add_in_flight_request_ids(id);
    loop_.reset();
    tell_engine(std::move(event));
    return in_flight;
  }
  void command(const proto::SchedulerCommand& command) {
    if (!loop_ || command.generation() != generation_) return;
    if (command.has_add())
      SIM_LOG(world_, "scheduler " + std::to_string(replica_) + ": " + command.add().request_id() +
                          (command.add().alone() ? ", alone" : ""));
    if (auto rejection = loop_->on_command(command)) tell_engine(std::move(*rejection));
    loop_->check_integrity();
    schedule_pump();
  }
  void report(const proto::WorkerReport& report) {
    if (!loop_ || report.generation() != generation_) return;
    const proto::SchedulerStats before = loop_->stats();
    const bool of_encoder = loop_->is_encoder_rank(report.rank());
    bool has_news = true;
    try {
      if (of_encoder)
        has_news = loop_->on_encoder_output(report.rank(), report.step(), world_.now());
      else
        loop_->on_output(report.step());
    } catch (const std::runtime_error& e) {
      listener_.scheduler_fault(replica_, generation_, e.what());
      return;
    }
    if (!of_encoder) loop_->set_waiting_since(world_.now());
    pump();
    const proto::SchedulerStats after = loop_->stats();
    num_preemptions_ += static_cast<uint64_t>(after.num_preemptions() - before.num_preemptions());
    num_accepted_ +=
        static_cast<uint64_t>(after.spec_accepted_tokens() - before.spec_accepted_tokens());
    if (has_news) tell_engine(loop_->step_event(), &report.step());
  }
  void tick(double step_timeout) {
    if (!loop_ || !loop_->waits_longer_than(step_timeout, world_.now())) return;
    listener_.scheduler_fault(replica_, generation_, "a step took too long");
    loop_->set_waiting_since(world_.now());
  }

 private:
  void tell_engine(proto::SchedulerEvent event, const proto::StepOutput* step = nullptr) {
    event.set_replica(replica_);
    event.set_generation(generation_);
    if (loop_) *event.mutable_stats() = loop_->stats();
    listener_.scheduler_event(event, step);
  }
  void schedule_pump() {
    if (std::exchange(pump_sent_, true)) return;
    world_.after(0, [this] { pump(); });
  }
  void pump() {
    pump_sent_ = false;
    if (!loop_) return;
    while (auto step = loop_->next_step(world_.now())) {
      const auto message = command_of(std::move(*step));
      for (int rank = 0; rank < workers_->size(); ++rank)
        if (!loop_->is_encoder_rank(rank)) send(rank, message);
    }
    while (true) {
      proto::StepInput step;
      const auto rank = loop_->next_encoder_step(world_.now(), step);
      if (!rank) break;
      send(*rank, command_of(std::move(step)));
    }
    loop_->check_integrity();
  }
  std::shared_ptr<const proto::WorkerCommand> command_of(proto::StepInput step) const {
    auto command = std::make_shared<proto::WorkerCommand>();
    command->set_generation(generation_);
    *command->mutable_step() = std::move(step);
    return command;
  }
  void send(int rank, const std::shared_ptr<const proto::WorkerCommand>& message) {
    world_.send(to_workers_[static_cast<size_t>(rank)],
                [to = workers_, rank, message] { to->command(rank, *message); });
  }

  World& world_;
  SchedulerListener& listener_;
  int replica_;
  uint64_t generation_ = 0;
  SimulatedGroup* workers_ = nullptr;
  std::vector<Link> to_workers_;
  std::optional<StepLoop> loop_;
  bool pump_sent_ = false;
  uint64_t num_preemptions_ = 0, num_accepted_ = 0;
};

}  // namespace tandem::testing_support
