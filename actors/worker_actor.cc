// WorkerActor: one rank, on a thread of its own, because a step blocks it. Reports to whoever sent
// the command: the supervisor for setup and start, the scheduler for steps.
//
// A device works behind its worker: while a step is under way the worker asks again and again, by a
// message to itself, whether the answer is there, sleeps a little, and takes the next step in
// between.

#include <sys/prctl.h>

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "actors/network/process_limits.h"
#include "actors/spawn.h"
#include "actors/worker_process.h"
#include "base/poll_nap.h"
#include "base/signal_stack.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/execution/ranks/rank_plan.h"
#include "runtime/version.h"

namespace tandem::actors {
namespace {

// With the worker's own message.
using WorkerActorHandle = WorkerHandle::extend<caf::reacts_to<Pump>>;

struct WorkerState {
  WorkerIdentity identity;
  std::shared_ptr<Worker> worker;
  ReportHandle supervisor;
  WorkerActorHandle::pointer self = nullptr;
  bool failed = false;
  bool answers = false;              // of its group's ranks it is one whose answers count
  std::deque<ReportHandle> waiting;  // who wants the answers to the steps under way, oldest first
  bool asking = false;               // a Pump is on its way
  std::chrono::steady_clock::time_point asked_since;  // about the oldest of them

  proto::WorkerReport new_report() const {
    proto::WorkerReport report;
    report.set_replica(identity.replica);
    report.set_generation(identity.generation);
    report.set_rank(identity.rank);
    return report;
  }
  void report(const ReportHandle& to, proto::WorkerReport report) {
    self->send(to, WorkerHandle(self), WorkerReportMessage(std::move(report)));
  }
  void fail(const std::string& what, bool invalid_model, bool in_step) {
    failed = true;
    auto out = new_report();
    out.mutable_failed()->set_what(what);
    out.mutable_failed()->set_invalid_model(invalid_model);
    out.mutable_failed()->set_in_step(in_step);
    report(supervisor, std::move(out));
  }

  // Of the actor's own.
  static void set_up_thread() {
    thread_local bool done = false;
    if (std::exchange(done, true)) return;
    use_signal_stack();
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns, by which naps may be longer
  }

  void hello() {
    auto out = new_report();
    *out.mutable_hello() = hello_of_this_process();
    out.mutable_hello()->set_version(kVersion);
    out.mutable_hello()->set_crash_record(identity.crash_record);
    report(supervisor, std::move(out));
  }

  void setup(const proto::WorkerSetup& setup) {
    auto last = std::chrono::steady_clock::now();
    const auto progress = [&](size_t done, size_t total) {
      const auto t = std::chrono::steady_clock::now();
      if (done < total && t - last < std::chrono::milliseconds(50)) return;
      last = t;
      auto out = new_report();
      out.mutable_loading()->set_done(done);
      out.mutable_loading()->set_total(total);
      report(supervisor, std::move(out));
    };
    auto out = new_report();
    *out.mutable_loaded() = worker->load(setup, progress);
    answers = answers_steps(setup);
    report(supervisor, std::move(out));
  }

  void on_command(const proto::WorkerCommand& command) {
    set_up_thread();
    if (identity.rank < 0 && command.has_setup()) {  // it has joined, and learns its place
      identity.replica = command.setup().replica();
      identity.rank = command.setup().rank();
      identity.generation = command.generation();
    }
    if (command.has_stop() && (identity.rank < 0 || command.generation() == identity.generation)) {
      if (identity.again) *identity.again = command.stop().again();
      self->quit();
      return;
    }
    if (failed || command.generation() != identity.generation) return;
    const auto sender = caf::actor_cast<ReportHandle>(self->current_sender());
    try {
      switch (command.command_case()) {
        case proto::WorkerCommand::kSetup: setup(command.setup()); break;
        case proto::WorkerCommand::kStart: {
          worker->start(command.start());
          auto out = new_report();
          out.mutable_ready();
          report(supervisor, std::move(out));
          break;
        }
        case proto::WorkerCommand::kStep:
          worker->launch(command.step());
          if (waiting.empty()) asked_since = std::chrono::steady_clock::now();
          waiting.push_back(sender);
          answer();
          break;
        default: throw std::runtime_error("worker command: missing or unknown");
      }
    } catch (...) {
      failure(command.has_setup(), command.has_step());
    }
  }

  // Answers that are there go out.
  void answer() {
    while (!waiting.empty() && worker->ready()) {
      auto out = new_report();
      *out.mutable_step() = worker->finish();
      if (answers) report(waiting.front(), std::move(out));
      waiting.pop_front();
      asked_since = std::chrono::steady_clock::now();
    }
    if (waiting.empty() || asking) return;
    asking = true;
    self->send(self, Pump{});
  }
  void on_pump() {
    asking = false;
    if (failed) return;
    std::this_thread::sleep_for(poll_nap(std::chrono::steady_clock::now() - asked_since));
    try {
      answer();
    } catch (...) {
      failure(false, true);
    }
  }

  // The exception that is being handled.
  void failure(bool in_setup, bool in_step) {
    try {
      throw;
    } catch (const InputError& e) {
      fail(e.what(), in_setup, false);
    } catch (const CommunicatorError& e) {
      fail(e.what(), false, false);
    } catch (const std::exception& e) {
      // What it lacks before it has begun it will lack the next time too, as with a bad model.
      const std::string want = want_of_resources(e);
      fail(want.empty() ? e.what() : want, !want.empty() && !in_step, in_step);
    }
  }
};

WorkerActorHandle::behavior_type worker(WorkerActorHandle::stateful_pointer<WorkerState> self,
                                        ReportHandle supervisor, WorkerIdentity identity,
                                        std::shared_ptr<Worker> worker) {
  WorkerState& s = self->state;
  s.self = self;
  s.supervisor = std::move(supervisor);
  s.identity = std::move(identity);
  s.worker = std::move(worker);
  s.hello();
  return {[self](const WorkerCommandMessage& c) { self->state.on_command(*c); },
          [self](const Pump&) { self->state.on_pump(); }};
}

}  // namespace

WorkerHandle spawn_worker(caf::actor_system& system, ReportHandle supervisor,
                          WorkerIdentity identity, std::shared_ptr<Worker> w) {
  return system.spawn<caf::detached>(worker, std::move(supervisor), std::move(identity),
                                     std::move(w));
}

}  // namespace tandem::actors
