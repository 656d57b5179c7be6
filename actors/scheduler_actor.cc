// SchedulerActor: one per replica. Sends StepLoop's steps to the workers and its results to the
// engine. All workers get the same messages from this one sender, so all see the same order. On a
// thread of its own: workers wait for it, so it must not wait for the engine's text and streams.

#include <optional>

#include "actors/spawn.h"
#include "runtime/engine/step_loop.h"

namespace tandem::actors {
namespace {

struct SchedulerState {
  int replica = 0;
  uint64_t generation = 0;
  std::shared_ptr<Shared> shared;
  EngineActorHandle engine;
  caf::actor_addr supervisor;  // who told of the group, and hears of its faults
  std::vector<WorkerHandle> workers;
  std::optional<StepLoop> loop;  // while the group is up
  bool has_encoder_ranks = false;
  bool pump_sent = false;
  SchedulerHandle::pointer self = nullptr;

  void tell_engine(proto::SchedulerEvent event, const WorkerReportMessage& step = {}) {
    event.set_replica(replica);
    event.set_generation(generation);
    if (loop) *event.mutable_stats() = loop->stats();
    self->send(engine, SchedulerEventMessage(std::move(event)), step);
  }

  // What is in the mailbox comes first, so that requests that arrive together start together.
  void schedule_pump() {
    if (pump_sent) return;
    pump_sent = true;
    self->send(self, Pump{});
  }

  void pump() {
    pump_sent = false;
    if (!loop) return;
    while (true) {
      const auto message = WorkerCommandMessage::build([this](proto::WorkerCommand& command) {
        command.set_generation(generation);
        return loop->next_step(now(), *command.mutable_step());
      });
      if (!message) break;
      for (int rank = 0; rank < std::ssize(workers); ++rank)
        if (!loop->is_encoder_rank(rank)) self->send(workers[static_cast<size_t>(rank)], message);
    }
    if (has_encoder_ranks) pump_encoders();
  }

  void pump_encoders() {
    while (true) {
      std::optional<int> rank;
      const auto message = WorkerCommandMessage::build([&](proto::WorkerCommand& command) {
        command.set_generation(generation);
        rank = loop->next_encoder_step(now(), *command.mutable_step());
        return rank.has_value();
      });
      if (!message) return;
      self->send(workers.at(static_cast<size_t>(*rank)), message);
    }
  }

  void fault(const std::string& cause) {
    const auto supervisor_handle = caf::actor_cast<SupervisorHandle>(supervisor);
    if (supervisor_handle) self->send(supervisor_handle, GroupFault{replica, generation, cause});
  }

  void group_up(const GroupUp& up) {
    generation = up.generation;
    workers = up.workers;
    supervisor = caf::actor_cast<caf::actor_addr>(self->current_sender());
    SchedulerConfig config =
        scheduler_config(shared->config.engine, up.cache, shared->processor->model_config());
    config.max_steps_in_flight = shared->config.max_steps_in_flight;
    config.first_encoder_rank = static_cast<int>(workers.size()) - config.encoder_ranks;
    has_encoder_ranks = config.encoder_ranks > 0;
    loop.emplace(config, shared->processor->model_config().vocab_size);
    proto::SchedulerEvent event;
    event.mutable_up();
    tell_engine(std::move(event));
  }

  void group_down(const GroupDown& down) {
    if (!loop || down.generation != generation) return;
    proto::SchedulerEvent event;
    event.mutable_down()->set_cause(down.cause);
    event.mutable_down()->set_crashed(down.crashed);
    for (std::string& id : loop->in_flight_request_ids())
      event.mutable_down()->add_in_flight_request_ids(std::move(id));
    loop.reset();
    workers.clear();
    tell_engine(std::move(event));
  }

  void on_command(const proto::SchedulerCommand& command) {
    if (!loop || command.generation() != generation) return;  // the engine knows by now
    if (auto rejection = loop->on_command(command)) tell_engine(std::move(*rejection));
    schedule_pump();
  }

  // A rank that answers steps is asked for them: others are not to speak for it.
  bool is_from(const WorkerHandle& worker, int rank) const {
    return rank >= 0 && rank < std::ssize(workers) && workers[static_cast<size_t>(rank)] == worker;
  }

  void on_report(const WorkerHandle& worker, const WorkerReportMessage& report) {
    if (!loop || report->generation() != generation) return;
    if (report->has_failed()) {
      fault("rank " + std::to_string(report->rank()) + ": " + report->failed().what());
      return;
    }
    if (!report->has_step() || !is_from(worker, report->rank())) return;
    const bool of_encoder = loop->is_encoder_rank(report->rank());
    bool has_news = true;
    try {
      if (of_encoder)
        has_news = loop->on_encoder_output(report->rank(), report->step(), now());
      else
        loop->on_output(report->step());
    } catch (const std::exception& e) {  // std::runtime_error: not an answer to what was asked
      fault(e.what());
      return;
    }
    if (!of_encoder) loop->set_waiting_since(now());
    pump();  // the workers come first
    if (has_news) tell_engine(loop->step_event(), report);
  }

  void tick() {
    if (loop && loop->waits_longer_than(shared->config.step_timeout, now())) {
      fault("a step took longer than " + std::to_string(shared->config.step_timeout) + " s");
      loop->set_waiting_since(now());
    }
    self->delayed_send(self, kTickInterval, Tick{});
  }
};

SchedulerHandle::behavior_type scheduler(SchedulerHandle::stateful_pointer<SchedulerState> self,
                                         std::shared_ptr<Shared> shared, int replica,
                                         EngineActorHandle engine) {
  SchedulerState& s = self->state;
  s.self = self;
  s.shared = std::move(shared);
  s.replica = replica;
  s.engine = std::move(engine);
  self->set_exception_handler(stop_loudly("scheduler"));
  self->delayed_send(self, kTickInterval, Tick{});
  return {
      [self](const WorkerHandle& worker, const WorkerReportMessage& r) {
        self->state.on_report(worker, r);
      },
      [self](const GroupUp& up) { self->state.group_up(up); },
      [self](const GroupDown& down) { self->state.group_down(down); },
      [self](const SchedulerCommandMessage& c) { self->state.on_command(*c); },
      [self](const Pump&) { self->state.pump(); },
      [self](const Tick&) { self->state.tick(); },
  };
}

}  // namespace

SchedulerHandle spawn_scheduler(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                int replica, EngineActorHandle engine) {
  return system.spawn<caf::detached>(scheduler, std::move(shared), replica, std::move(engine));
}

}  // namespace tandem::actors
